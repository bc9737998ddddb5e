package fleet

import (
	"testing"
	"time"
)

const block = 16

func agent(id uint64) prefixKey { return prefixKey{shared: true, id: id} }

func chat(id uint64) prefixKey { return prefixKey{id: id} }

// runSequence acquires, computes and releases one sequence and returns what hit.
func runSequence(t *testing.T, c *cache, a, s prefixKey, shared, prompt, output int, now time.Duration) int {
	t.Helper()
	l, hit, ok := c.acquire(a, s, shared, prompt, 0)
	if !ok {
		t.Fatalf("prompt of %d tokens does not fit", prompt)
	}
	if !c.grow(l, prompt+output-1, now) {
		t.Fatalf("sequence of %d tokens does not fit", prompt+output)
	}
	c.release(l, now)
	checkCache(t, c)
	return hit
}

// checkCache holds the cache's books against what it holds.
func checkCache(t *testing.T, c *cache) {
	t.Helper()
	free := 0
	var newer *prefix
	for p := c.newest; p != nil; p = p.older {
		if p.newer != newer {
			t.Fatal("the list of free prefixes is broken")
		}
		if p.refs != 0 || p.blocks == 0 || p.tokens > p.blocks*c.blockSize {
			t.Fatalf("free prefix %+v", p)
		}
		newer = p
		free += p.blocks
	}
	if newer != c.oldest {
		t.Fatal("the list of free prefixes does not end at the oldest")
	}
	if free != c.free {
		t.Fatalf("%d free blocks are booked, %d are there", c.free, free)
	}
	if c.pinned < 0 || c.pinned+c.free > c.usable {
		t.Fatalf("pinned %d and free %d of %d", c.pinned, c.free, c.usable)
	}
}

func TestCacheHits(t *testing.T) {
	t.Parallel()
	c := newCache(101, block)
	if hit := runSequence(t, c, agent(1), chat(1), 160, 400, 20, 0); hit != 0 {
		t.Errorf("an empty cache hits %d tokens", hit)
	}
	// 419 tokens were computed: ten shared blocks, and 259 of the session's own in 16 full ones.
	if hit := runSequence(t, c, agent(1), chat(1), 160, 500, 20, 1); hit != 416 {
		t.Errorf("the next call hits %d tokens, want 416", hit)
	}
	if hit := runSequence(t, c, agent(1), chat(2), 160, 300, 20, 2); hit != 160 {
		t.Errorf("another session hits %d tokens, want the shared 160", hit)
	}
	if hit := runSequence(t, c, agent(2), chat(1), 160, 500, 20, 3); hit != 0 {
		t.Errorf("the session under another system prompt hits %d tokens, want none", hit)
	}
}

// A prompt that is cached whole still has its last token computed.
func TestCacheComputesTheLastToken(t *testing.T) {
	t.Parallel()
	c := newCache(101, block)
	runSequence(t, c, agent(1), chat(1), 160, 320, 1, 0)
	if hit := runSequence(t, c, agent(1), chat(1), 160, 320, 1, 1); hit != 304 {
		t.Errorf("hit %d, want 304", hit)
	}
}

func TestCacheEvictsTheTailOfTheOldest(t *testing.T) {
	t.Parallel()
	c := newCache(41, block) // 40 usable blocks
	var lost []uint64
	c.evicted = func(p *prefix, blocks int) { lost = append(lost, p.key.id, uint64(blocks)) }
	runSequence(t, c, agent(1), chat(1), 160, 320, 1, 0) // 10 + 10 blocks
	runSequence(t, c, agent(1), chat(2), 160, 320, 1, 1) // 10 more
	runSequence(t, c, agent(1), chat(3), 160, 400, 1, 2) // 15 more: 5 must go
	if len(lost) != 2 || lost[0] != 1 || lost[1] != 5 {
		t.Errorf("lost %v, want 5 blocks of session 1", lost)
	}
	if hit := runSequence(t, c, agent(1), chat(1), 160, 320, 1, 3); hit != 240 {
		t.Errorf("session 1 hits %d tokens, want the shared 160 and what is left of its own, 80", hit)
	}
}

func TestCacheRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	c := newCache(41, block)
	l, _, ok := c.acquire(agent(1), chat(1), 160, 400, 0)
	if !ok || !c.grow(l, 400, 0) {
		t.Fatal("25 of 40 blocks do not fit")
	}
	if _, _, ok := c.acquire(agent(2), chat(2), 160, 400, 0); ok {
		t.Error("a second prompt of 25 blocks fits into the 15 that are left")
	}
	if _, _, ok := c.acquire(agent(1), chat(2), 160, 400, 0); !ok {
		t.Error("a prompt that shares 10 of its 25 blocks does not fit into the 15 that are left")
	}
}

func TestCacheSwitchedOff(t *testing.T) {
	t.Parallel()
	c := newCache(101, block)
	c.enabled = false
	runSequence(t, c, agent(1), chat(1), 160, 400, 20, 0)
	if hit := runSequence(t, c, agent(1), chat(1), 160, 500, 20, 1); hit != 0 || c.free != 0 {
		t.Errorf("hit %d, %d blocks kept, want none", hit, c.free)
	}
}

// Whatever sequences come, grow, finish or are cut short, in whatever order:
// the books stay right, and at the end nothing is pinned.
func FuzzCache(f *testing.F) {
	f.Add([]byte{1, 40, 0, 2, 80, 3, 1, 40, 1, 0, 9, 9})
	f.Add([]byte{7, 255, 0, 7, 255, 0, 7, 255, 1, 200, 200, 2})
	f.Fuzz(func(t *testing.T, script []byte) {
		c := newCache(64, block)
		type live struct {
			lease  *lease
			tokens int
		}
		var running []live
		for now := time.Duration(0); len(script) >= 3; script = script[3:] {
			now += time.Second
			id, size, action := uint64(script[0]%5), int(script[1]), script[2]
			switch {
			case action%3 == 0 && len(running) > 0:
				at := int(id) % len(running)
				c.release(running[at].lease, now)
				running = append(running[:at], running[at+1:]...)
			case action%3 == 1 && len(running) > 0:
				at := int(id) % len(running)
				if c.grow(running[at].lease, running[at].tokens+size, now) {
					running[at].tokens += size
				}
			default:
				prompt := 4*block + 1 + 2*size
				if l, hit, ok := c.acquire(agent(id%2), chat(id), 4*block, prompt, 0); ok {
					if hit >= prompt {
						t.Fatalf("hit %d of %d tokens", hit, prompt)
					}
					if !c.grow(l, prompt, now) {
						t.Fatalf("an admitted prompt of %d tokens does not fit", prompt)
					}
					running = append(running, live{l, prompt})
				}
			}
			checkCache(t, c)
		}
		for _, r := range running {
			c.release(r.lease, 0)
		}
		checkCache(t, c)
		if c.pinned != 0 {
			t.Fatalf("%d blocks stay pinned", c.pinned)
		}
	})
}
