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
	written        bool
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
	enabled  bool
	prefixes map[prefixKey]*prefix
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
}

func newCache(blocks, blockSize int) *cache {
	return &cache{
		blockSize: blockSize, usable: blocks - 1, enabled: true, prefixes: map[prefixKey]*prefix{},
		evicted: func(*prefix, int) {}, reused: func(*prefix) {},
	}
}

// usage is the referenced share of all blocks, 0 to 1: vllm:kv_cache_usage_perc.
func (c *cache) usage() float64 { return float64(c.pinned) / float64(c.usable) }

// acquire pins what is cached of a prompt and returns how many of its tokens
// need not be computed. It pins nothing and returns false when the whole
// prompt does not fit beside what is pinned, with reserve blocks to spare.
func (c *cache) acquire(shared, own prefixKey, sharedTokens, promptTokens, reserve int) (l *lease, hit int, ok bool) {
	front, back := c.lookUp(shared), c.lookUp(own)
	hitShared := c.hittable(front, min(sharedTokens, promptTokens-1))
	hitOwn := 0
	if hitShared == sharedTokens {
		hitOwn = c.hittable(back, promptTokens-1-sharedTokens)
	}
	if c.pinned+c.unpinned(front, hitShared)+c.unpinned(back, hitOwn)+c.blocksFor(promptTokens-hitShared-hitOwn)+reserve > c.usable {
		return nil, 0, false
	}
	if back != nil && hitOwn == 0 {
		c.forget(back)
		back = nil
	}
	l = &lease{sharedTokens: sharedTokens}
	l.shared = c.pin(shared, front, hitShared)
	l.own = c.pin(own, back, hitOwn)
	return l, hitShared + hitOwn, true
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
func (c *cache) pin(key prefixKey, p *prefix, hit int) hold {
	if !c.enabled {
		return hold{}
	}
	if p == nil {
		if c.prefixes[key] != nil {
			return hold{}
		}
		p = &prefix{key: key}
		c.prefixes[key] = p
	}
	if p.refs == 0 && p.blocks > 0 {
		c.reused(p)
		c.unlink(p)
		c.free -= p.blocks
		c.pinned += p.blocks
	}
	p.refs++
	h := hold{prefix: p, writes: !p.written, base: hit / c.blockSize}
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
	return c.growHold(&l.shared, min(tokens, l.sharedTokens), now) &&
		c.growHold(&l.own, max(0, tokens-l.sharedTokens), now)
}

func (c *cache) growHold(h *hold, tokens int, now time.Duration) bool {
	have := h.base + h.private
	if h.writes {
		have = h.prefix.blocks
	}
	more := c.blocksFor(tokens) - have
	if more > 0 && !c.take(more) {
		return false
	}
	more = max(0, more)
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

// take pins n more blocks, evicting free ones where there are no unused ones.
func (c *cache) take(n int) bool {
	if c.pinned+n > c.usable {
		return false
	}
	for missing := c.pinned + c.free + n - c.usable; missing > 0; {
		p := c.oldest
		cut := min(missing, p.blocks)
		c.evicted(p, cut)
		p.blocks -= cut
		p.tokens = min(p.tokens, p.blocks*c.blockSize)
		c.free -= cut
		missing -= cut
		if p.blocks == 0 {
			c.unlink(p)
			if c.prefixes[p.key] == p {
				delete(c.prefixes, p.key)
			}
		}
	}
	c.pinned += n
	return true
}

// release gives back all that a sequence held; full blocks stay cached.
func (c *cache) release(l *lease, now time.Duration) {
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
		if c.prefixes[p.key] == p {
			delete(c.prefixes, p.key)
		}
		return
	}
	c.free += p.blocks
	p.released = now
	c.link(p)
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
