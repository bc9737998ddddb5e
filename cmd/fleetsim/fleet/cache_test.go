package fleet

import (
	"testing"
	"time"
)

const block = 16

func agent(id uint64) prefixKey { return prefixKey{shared: true, id: id} }

func chat(id uint64) prefixKey { return prefixKey{id: id} }

// runSequence acquires, computes and releases one sequence and returns what hit.
func runSequence(t *testing.T, c *cache, a, s prefixKey, shared, tokens, output int, now time.Duration, edits ...int) int {
	t.Helper()
	var l lease
	hit, ok := c.acquire(&l, prompt{shared: a, own: s, sharedTokens: shared, tokens: tokens, edits: edits}, 0)
	if !ok {
		t.Fatalf("prompt of %d tokens does not fit", tokens)
	}
	if !c.grow(&l, tokens+output-1, now) {
		t.Fatalf("sequence of %d tokens does not fit", tokens+output)
	}
	c.release(&l, now)
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
	if c.pinned < 0 || c.pinned > c.usable || (c.tier == 0 && c.pinned+c.free > c.usable) || (c.tier > 0 && c.free > c.tier) {
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
	var l, other lease
	if _, ok := c.acquire(&l, prompt{shared: agent(1), own: chat(1), sharedTokens: 160, tokens: 400}, 0); !ok || !c.grow(&l, 400, 0) {
		t.Fatal("25 of 40 blocks do not fit")
	}
	if _, ok := c.acquire(&other, prompt{shared: agent(2), own: chat(2), sharedTokens: 160, tokens: 400}, 0); ok {
		t.Error("a second prompt of 25 blocks fits into the 15 that are left")
	}
	if _, ok := c.acquire(&other, prompt{shared: agent(1), own: chat(2), sharedTokens: 160, tokens: 400}, 0); !ok {
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

// What a session has written anew is computed again from there on; what stood
// there before is garbage that goes when its turn comes.
func TestCacheCutsWhatIsRewritten(t *testing.T) {
	t.Parallel()
	c := newCache(101, block)
	runSequence(t, c, agent(1), chat(1), 160, 480, 1, 0) // 10 + 20 blocks
	if hit := runSequence(t, c, agent(1), chat(1), 160, 480, 1, 1, 100); hit != 160+96 {
		t.Errorf("after a rewrite from token 100 on the call hits %d tokens, want 256", hit)
	}
	if c.free != 10+20+14 {
		t.Errorf("%d blocks are free, want 30 of use and 14 of garbage", c.free)
	}
	if hit := runSequence(t, c, agent(1), chat(1), 160, 480, 1, 2, 100); hit != 464 {
		t.Errorf("the call after that hits %d tokens, want all full blocks but the last", hit)
	}
	if hit := runSequence(t, c, agent(1), chat(1), 160, 480, 1, 3, 100, 50, 200); hit != 160+48 {
		t.Errorf("after two more rewrites the call hits %d tokens, want 208", hit)
	}
	if hit := runSequence(t, c, agent(1), chat(1), 160, 480, 1, 4, 100, 50, 200, 0); hit != 160 {
		t.Errorf("after all was rewritten the call hits %d tokens, want the shared 160", hit)
	}
	runSequence(t, c, agent(1), chat(2), 160, 1600, 1, 5) // takes all of the memory
	if hit := runSequence(t, c, agent(1), chat(1), 160, 480, 1, 6, 100, 50, 200, 0); hit != 160 {
		t.Errorf("after all else was evicted the call hits %d tokens, want 160", hit)
	}
}

// Two live calls of one session: the later one must not cut what the other uses.
func TestCacheCutsNothingInUse(t *testing.T) {
	t.Parallel()
	c := newCache(101, block)
	want := prompt{shared: agent(1), own: chat(1), sharedTokens: 160, tokens: 480}
	var first, second lease
	if _, ok := c.acquire(&first, want, 0); !ok || !c.grow(&first, 480, 0) {
		t.Fatal("30 of 100 blocks do not fit")
	}
	want.edits = []int{96}
	hit, ok := c.acquire(&second, want, 0)
	if !ok || hit != 256 || !c.grow(&second, 480, 0) {
		t.Fatalf("the rewritten call hits %d tokens (%v), want 256", hit, ok)
	}
	if c.pinned != 30+14 {
		t.Errorf("%d blocks are pinned, want 44", c.pinned)
	}
	c.release(&first, 1)
	c.release(&second, 1)
	checkCache(t, c)
	if c.pinned != 0 {
		t.Errorf("%d blocks stay pinned", c.pinned)
	}
}

// With a tier outside, free prefixes take nothing from live sequences.
func TestCacheTier(t *testing.T) {
	t.Parallel()
	c := newCache(41, block)
	c.tier = 60
	for id := range uint64(3) {
		runSequence(t, c, agent(1), chat(id), 160, 480, 1, time.Duration(id)) // 10 shared + 20 each
	}
	if c.free != 60 {
		t.Errorf("%d blocks lie in the tier, want 60", c.free)
	}
	if hit := runSequence(t, c, agent(1), chat(2), 160, 480, 1, 4); hit != 464 {
		t.Errorf("hit %d tokens, want 464: 40 blocks of memory and 60 outside", hit)
	}
	if hit := runSequence(t, c, agent(1), chat(0), 160, 480, 1, 5); hit == 464 || hit < 160 {
		t.Errorf("hit %d tokens of the oldest session, want a part: 70 blocks do not fit into 60", hit)
	}
}

// Whatever sequences come, grow, finish or are cut short, in whatever order:
// the books stay right, and at the end nothing is pinned.
func FuzzCache(f *testing.F) {
	f.Add([]byte{1, 40, 0, 2, 80, 3, 1, 40, 1, 0, 9, 9})
	f.Add([]byte{1, 40, 2, 1, 90, 66, 1, 80, 66, 1, 5, 2, 0, 0, 0, 1, 99, 66})
	f.Add([]byte{7, 255, 0, 7, 255, 0, 7, 255, 1, 200, 200, 2})
	f.Fuzz(func(t *testing.T, script []byte) {
		c := newCache(64, block)
		type live struct {
			lease  lease
			tokens int
		}
		var running []live
		var edits [5][]int
		for now := time.Duration(0); len(script) >= 3; script = script[3:] {
			now += time.Second
			id, size, action := uint64(script[0]%5), int(script[1]), script[2]
			switch {
			case action%3 == 0 && len(running) > 0:
				at := int(id) % len(running)
				c.release(&running[at].lease, now)
				running = append(running[:at], running[at+1:]...)
			case action%3 == 1 && len(running) > 0:
				at := int(id) % len(running)
				if c.grow(&running[at].lease, running[at].tokens+size, now) {
					running[at].tokens += size
				}
			default:
				want := prompt{shared: agent(id % 2), own: chat(id), sharedTokens: 4 * block, tokens: 4*block + 1 + 2*size}
				if action&64 != 0 {
					edits[id] = append(edits[id], size)
				}
				want.edits = edits[id]
				var l lease
				if hit, ok := c.acquire(&l, want, 0); ok {
					if hit >= want.tokens {
						t.Fatalf("hit %d of %d tokens", hit, want.tokens)
					}
					if !c.grow(&l, want.tokens, now) {
						t.Fatalf("an admitted prompt of %d tokens does not fit", want.tokens)
					}
					running = append(running, live{l, want.tokens})
				}
			}
			checkCache(t, c)
		}
		for _, r := range running {
			c.release(&r.lease, 0)
		}
		checkCache(t, c)
		if c.pinned != 0 {
			t.Fatalf("%d blocks stay pinned", c.pinned)
		}
	})
}
