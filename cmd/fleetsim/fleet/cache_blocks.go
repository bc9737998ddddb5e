package fleet

import (
	"math"
	"slices"
	"time"
)

// blockHashes names the full blocks of a text from outside, one after the
// other. Each name stands for all that was said up to the end of its block, as
// vLLM's block hashes do: equal names are equal prompts up to there.
type blockHashes []uint64

// blockLease is what a live sequence from outside holds. Its blocks are cached
// one by one, so that prompts may share any beginning.
type blockLease struct {
	hashes blockHashes
	// held are blocks that others can find, in the order of the text; private
	// counts those that they cannot: the last one, and those that another
	// sequence has written already.
	held    []*prefix
	private int
	// seen is how many of the full blocks were offered to the cache.
	seen int
}

// outsideVersion is the version of all blocks from outside. Sessions count
// theirs from 0.
const outsideVersion = math.MaxUint64

func blockKey(hash uint64) prefixKey { return prefixKey{id: hash, version: outsideVersion} }

// acquireBlocks does for a text from outside what acquire does for a session's.
func (c *cache) acquireBlocks(l *lease, want prompt, reserve int) (hit int, ok bool) {
	var found []*prefix
	unpinned := 0
	for _, hash := range want.blocks[:min(len(want.blocks), (want.tokens-1)/c.blockSize)] {
		p := c.lookUp(blockKey(hash))
		if p == nil {
			break
		}
		if p.refs == 0 {
			unpinned++
		}
		found = append(found, p)
	}
	hit = len(found) * c.blockSize
	if c.pinned+unpinned+c.blocksFor(want.tokens-hit)+reserve > c.usable {
		return hit, false
	}
	for _, p := range found {
		if p.refs == 0 {
			c.reused(p)
			c.unlink(p)
			c.free--
			c.pinned++
		}
		p.refs++
	}
	*l = lease{blocks: &blockLease{hashes: want.blocks, held: found, seen: len(found)}}
	return hit, true
}

// growBlocks makes room for a sequence of so many tokens, and lets others find
// the blocks that it fills.
func (c *cache) growBlocks(l *blockLease, tokens int, now time.Duration) bool {
	more := c.missingBlocks(l, tokens)
	if more > 0 && !c.take(more) {
		return false
	}
	l.private += more
	for ; l.seen < min(tokens/c.blockSize, len(l.hashes)); l.seen++ {
		key := blockKey(l.hashes[l.seen])
		if !c.enabled || c.prefixes[key] != nil {
			continue
		}
		p := c.newPrefix(key)
		p.tokens, p.blocks, p.refs, p.born = c.blockSize, 1, 1, now
		c.prefixes[key] = p
		l.held = append(l.held, p)
		l.private--
	}
	return true
}

func (c *cache) missingBlocks(l *blockLease, tokens int) int {
	return max(0, c.blocksFor(tokens)-len(l.held)-l.private)
}

// releaseBlocks gives back all that a sequence held, the last block first: it
// is evicted first.
func (c *cache) releaseBlocks(l *blockLease, now time.Duration) {
	c.pinned -= l.private
	for _, p := range slices.Backward(l.held) {
		if p.refs--; p.refs > 0 {
			continue
		}
		c.pinned--
		c.free++
		p.released = now
		c.link(p)
	}
	c.evict()
}
