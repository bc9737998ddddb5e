package fleet

import "time"

// prefixKey names a run of tokens that calls may share: the system prompt of a
// kind of agent, or what one session has said so far. Another version is other
// content under the same id, and shares nothing with it.
type prefixKey struct {
	shared  bool
	id      uint64
	version uint64
}

// prefix is a run of cached blocks. Blocks of prefixes that no live sequence
// references are free: they stay until their room is needed, and go from the
// tail of the prefix that was released longest ago, as in vLLM.
type prefix struct {
	key prefixKey
	// tokens are computed, blocks are held; only full blocks can be hit.
	tokens, blocks int
	refs           int
	// written says that a live sequence is extending it.
	written bool
	// edits is how many of its session's rewrites it has seen.
	edits          int
	born, released time.Duration
	older, newer   *prefix // neighbours among the free ones
}

// cache is the KV memory of one engine: blocks of live sequences and, in what
// is left, the prefixes of finished ones.
type cache struct {
	blockSize int
	// usable is the number of blocks; vLLM keeps one more that is always null.
	usable int
	// enabled says whether prefixes are looked up.
	enabled bool
	// tier is how many blocks of free prefixes are kept outside of this memory
	// (an offloaded prefix cache); 0 keeps them in what live sequences leave.
	tier     int
	prefixes map[prefixKey]*prefix
	spare    []*prefix // let go of, to be used again
	// pinned blocks are referenced by live sequences, free ones hold prefixes
	// that nobody references.
	pinned, free   int
	oldest, newest *prefix
	// evicted is told of each prefix that loses blocks.
	evicted func(p *prefix, blocks int)
	// reused is told of each free prefix that a sequence finds again.
	reused func(p *prefix)
}

// hold is what one live sequence holds of one prefix.
type hold struct {
	prefix *prefix
	// writes says that growth extends the prefix. Otherwise base blocks of it
	// are used and growth is private: another sequence writes it, or the
	// content in the cache does not continue what comes before.
	writes  bool
	base    int
	private int
}

// lease is what one live sequence holds: of the shared prompt in front and of
// its session's own context behind it.
type lease struct {
	sharedTokens int
	shared, own  hold
	// blocks are those of a sequence from outside, which holds nothing else.
	blocks *blockLease
}

func newCache(blocks, blockSize int) *cache {
	return &cache{
		blockSize: blockSize, usable: blocks - 1, enabled: true, prefixes: map[prefixKey]*prefix{},
		evicted: func(*prefix, int) {}, reused: func(*prefix) {},
	}
}

// newPrefix returns an empty prefix that nobody knows yet.
func (c *cache) newPrefix(key prefixKey) *prefix {
	if last := len(c.spare) - 1; last >= 0 {
		p := c.spare[last]
		c.spare = c.spare[:last]
		*p = prefix{key: key}
		return p
	}
	return &prefix{key: key}
}

// drop lets go of a prefix that holds no block and that nobody references.
func (c *cache) drop(p *prefix) {
	if c.prefixes[p.key] == p {
		delete(c.prefixes, p.key)
	}
	c.spare = append(c.spare, p)
}

// usage is the referenced share of all blocks, 0 to 1: vllm:kv_cache_usage_perc.
func (c *cache) usage() float64 { return float64(c.pinned) / float64(c.usable) }

// prompt is what a sequence wants computed: a shared prompt in front and its
// session's own context behind it.
type prompt struct {
	shared, own          prefixKey
	sharedTokens, tokens int
	// edits are the session's rewrites so far: each is how many tokens of its
	// own context the rewrite left as they were.
	edits []int
	// blocks are those of a text from outside, of which nothing else is known.
	blocks blockHashes
}

// acquire pins what is cached of a prompt for a lease and returns how many of
// its tokens need not be computed. It pins nothing and returns false, with what
// it found, when the whole prompt does not fit beside what is pinned, with
// reserve blocks to spare.
func (c *cache) acquire(l *lease, want prompt, reserve int) (hit int, ok bool) {
	if want.blocks != nil {
		return c.acquireBlocks(l, want, reserve)
	}
	front, back := c.lookUp(want.shared), c.lookUp(want.own)
	hitShared := c.hittable(front, min(want.sharedTokens, want.tokens-1))
	hitOwn := 0
	if hitShared == want.sharedTokens {
		hitOwn = c.hittable(back, min(want.tokens-1-want.sharedTokens, valid(back, want.edits)))
	}
	stale := back != nil && back.edits < len(want.edits)
	reclaimed := c.unpinned(back, hitOwn)
	if stale {
		reclaimed = min(reclaimed, hitOwn/c.blockSize) // the rest of it is cut off
	}
	if c.pinned+c.unpinned(front, hitShared)+reclaimed+c.blocksFor(want.tokens-hitShared-hitOwn)+reserve > c.usable {
		return hitShared + hitOwn, false
	}
	if back != nil && hitOwn == 0 {
		c.forget(back)
		back = nil
	}
	if back != nil && stale && back.refs == 0 {
		c.cut(back, hitOwn)
		back.edits = len(want.edits)
	}
	*l = lease{sharedTokens: want.sharedTokens}
	l.shared = c.pin(want.shared, front, hitShared, 0)
	l.own = c.pin(want.own, back, hitOwn, len(want.edits))
	return hitShared + hitOwn, true
}

// valid is how many tokens of a prefix its session's rewrites since have left
// as they were.
func valid(p *prefix, edits []int) int {
	if p == nil {
		return 0
	}
	left := p.tokens
	for _, edit := range edits[min(p.edits, len(edits)):] {
		left = min(left, edit)
	}
	return left
}

// cut keeps the first tokens of a free prefix, which are whole blocks. The rest
// is garbage from now on: it keeps its blocks, and its place among the free
// ones, until they are needed.
func (c *cache) cut(p *prefix, tokens int) {
	blocks := tokens / c.blockSize
	if blocks >= p.blocks {
		return
	}
	rest := c.newPrefix(prefixKey{})
	rest.blocks, rest.tokens = p.blocks-blocks, p.tokens-tokens
	rest.born, rest.released = p.born, p.released
	p.blocks, p.tokens = blocks, tokens
	rest.newer, rest.older = p, p.older
	if p.older != nil {
		p.older.newer = rest
	} else {
		c.oldest = rest
	}
	p.older = rest
}

// lookUp returns the cached prefix, nil when there is none.
func (c *cache) lookUp(key prefixKey) *prefix {
	if !c.enabled {
		return nil
	}
	return c.prefixes[key]
}

// hittable is how many of the first limit tokens lie in full cached blocks.
func (c *cache) hittable(p *prefix, limit int) int {
	if p == nil {
		return 0
	}
	return min(p.tokens, limit) / c.blockSize * c.blockSize
}

// unpinned is how many blocks a hit would take out of the free ones.
func (c *cache) unpinned(p *prefix, hit int) int {
	if p == nil || p.refs > 0 || hit == 0 {
		return 0
	}
	return p.blocks
}

func (c *cache) blocksFor(tokens int) int { return (tokens + c.blockSize - 1) / c.blockSize }

// pin takes hold of a prefix, or begins it when there is none.
func (c *cache) pin(key prefixKey, p *prefix, hit, edits int) hold {
	if !c.enabled {
		return hold{}
	}
	if p == nil {
		if c.prefixes[key] != nil {
			return hold{}
		}
		p = c.newPrefix(key)
		p.edits = edits
		c.prefixes[key] = p
	}
	if p.refs == 0 && p.blocks > 0 {
		c.reused(p)
		c.unlink(p)
		c.free -= p.blocks
		c.pinned += p.blocks
	}
	p.refs++
	h := hold{prefix: p, writes: !p.written && p.edits == edits, base: hit / c.blockSize}
	if h.writes {
		p.written = true
	}
	return h
}

// forget lets go of a prefix that nothing can continue; its blocks stay as
// garbage until they are evicted.
func (c *cache) forget(p *prefix) {
	if c.prefixes[p.key] == p && p.refs == 0 {
		delete(c.prefixes, p.key)
	}
}

// grow makes room for a sequence of so many tokens. False means that no block
// is left: somebody has to be preempted.
func (c *cache) grow(l *lease, tokens int, now time.Duration) bool {
	if l.blocks != nil {
		return c.growBlocks(l.blocks, tokens, now)
	}
	return c.growHold(&l.shared, min(tokens, l.sharedTokens), now) &&
		c.growHold(&l.own, max(0, tokens-l.sharedTokens), now)
}

func (c *cache) growHold(h *hold, tokens int, now time.Duration) bool {
	more := c.missingHold(h, tokens)
	if more > 0 && !c.take(more) {
		return false
	}
	if !h.writes {
		h.private += more
		return true
	}
	if h.prefix.blocks == 0 {
		h.prefix.born = now
	}
	h.prefix.blocks += more
	h.prefix.tokens = max(h.prefix.tokens, tokens)
	return true
}

// missing is how many blocks a sequence of so many tokens needs beyond those
// that it holds.
func (c *cache) missing(l *lease, tokens int) int {
	if l.blocks != nil {
		return c.missingBlocks(l.blocks, tokens)
	}
	return c.missingHold(&l.shared, min(tokens, l.sharedTokens)) + c.missingHold(&l.own, max(0, tokens-l.sharedTokens))
}

func (c *cache) missingHold(h *hold, tokens int) int {
	have := h.base + h.private
	if h.writes {
		have = h.prefix.blocks
	}
	return max(0, c.blocksFor(tokens)-have)
}

// take pins n more blocks, evicting free ones where there are no unused ones.
func (c *cache) take(n int) bool {
	if c.pinned+n > c.usable {
		return false
	}
	c.pinned += n
	c.evict()
	return true
}

// evict takes blocks from the free prefixes, the oldest first, until the rest
// has room.
func (c *cache) evict() {
	room := c.usable - c.pinned
	if c.tier > 0 {
		room = c.tier
	}
	for c.free > room {
		p := c.oldest
		lost := min(c.free-room, p.blocks)
		c.evicted(p, lost)
		p.blocks -= lost
		p.tokens = min(p.tokens, p.blocks*c.blockSize)
		c.free -= lost
		if p.blocks == 0 {
			c.unlink(p)
			c.drop(p)
		}
	}
}

// release gives back all that a sequence held; full blocks stay cached.
func (c *cache) release(l *lease, now time.Duration) {
	if l.blocks != nil {
		c.releaseBlocks(l.blocks, now)
		l.blocks = nil
		return
	}
	c.releaseHold(&l.own, now)
	c.releaseHold(&l.shared, now)
}

func (c *cache) releaseHold(h *hold, now time.Duration) {
	c.pinned -= h.private
	h.private = 0
	p := h.prefix
	if p == nil {
		return
	}
	h.prefix = nil
	p.refs--
	if h.writes {
		p.written = false
		full := p.tokens / c.blockSize
		c.pinned -= p.blocks - full
		p.blocks, p.tokens = full, full*c.blockSize
	}
	if p.refs > 0 {
		return
	}
	c.pinned -= p.blocks
	if p.blocks == 0 {
		c.drop(p)
		return
	}
	c.free += p.blocks
	p.released = now
	c.link(p)
	c.evict()
}

// link puts a prefix behind all free ones: it is evicted last.
func (c *cache) link(p *prefix) {
	p.older, p.newer = c.newest, nil
	if c.newest != nil {
		c.newest.newer = p
	} else {
		c.oldest = p
	}
	c.newest = p
}

func (c *cache) unlink(p *prefix) {
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		c.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		c.newest = p.older
	}
	p.older, p.newer = nil, nil
}
