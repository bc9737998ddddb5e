package fleet

import (
	"testing"
	"time"
)

// outside asks a cache for a text of so many tokens whose blocks have these
// names, computes it and gives it back; it returns what was cached.
func outside(t *testing.T, c *cache, now time.Duration, tokens int, blocks ...uint64) int {
	t.Helper()
	var l lease
	hit, ok := c.acquire(&l, prompt{tokens: tokens, blocks: blocks}, 0)
	if !ok {
		t.Fatalf("a text of %d tokens does not fit into %d blocks", tokens, c.usable)
	}
	if !c.grow(&l, tokens, now) {
		t.Fatalf("no room for %d tokens", tokens)
	}
	if c.pinned != c.blocksFor(tokens) {
		t.Fatalf("%d blocks pinned for %d tokens", c.pinned, tokens)
	}
	c.release(&l, now)
	if c.pinned != 0 || c.free > c.usable {
		t.Fatalf("after the release %d blocks are pinned, %d free of %d", c.pinned, c.free, c.usable)
	}
	return hit
}

func TestBlocksOfTexts(t *testing.T) {
	t.Parallel()
	c := newCache(11, 16)
	steps := []struct {
		name   string
		tokens int
		blocks []uint64
		hit    int
	}{
		{"nothing is cached at first", 40, []uint64{1, 2}, 0},
		{"what is said again is found", 40, []uint64{1, 2}, 32},
		{"the last token is computed always", 32, []uint64{1, 2}, 16},
		{"it goes on from there", 70, []uint64{1, 2, 3, 4}, 32},
		{"another branch shares the beginning", 70, []uint64{1, 2, 13, 14}, 32},
		{"and takes nothing from the first", 70, []uint64{1, 2, 3, 4}, 64},
		{"behind a gap nothing is found", 70, []uint64{9, 2, 3, 4}, 0},
	}
	for i, s := range steps {
		if hit := outside(t, c, time.Duration(i)*time.Second, s.tokens, s.blocks...); hit != s.hit {
			t.Errorf("%s: %d tokens were cached, want %d", s.name, hit, s.hit)
		}
	}
}

func TestBlocksAreEvictedFromTheTail(t *testing.T) {
	t.Parallel()
	c := newCache(9, 16)
	outside(t, c, 0, 96, 1, 2, 3, 4, 5, 6)
	outside(t, c, time.Second, 64, 11, 12, 13, 14)
	if hit := outside(t, c, 2*time.Second, 97, 1, 2, 3, 4, 5, 6); hit != 64 {
		t.Errorf("%d tokens of the older text are left, want the first 64", hit)
	}
}

func TestBlocksThatDoNotFit(t *testing.T) {
	t.Parallel()
	c := newCache(9, 16)
	var first, second lease
	if _, ok := c.acquire(&first, prompt{tokens: 80, blocks: blockHashes{1, 2, 3, 4, 5}}, 0); !ok || !c.grow(&first, 80, 0) {
		t.Fatal("five blocks do not fit into eight")
	}
	if _, ok := c.acquire(&second, prompt{tokens: 80, blocks: blockHashes{11, 12, 13, 14, 15}}, 0); ok {
		t.Error("ten blocks fit into eight")
	}
	hit, ok := c.acquire(&second, prompt{tokens: 81, blocks: blockHashes{1, 2, 3, 4, 5}}, 0)
	if !ok || hit != 80 {
		t.Fatalf("a live text is shared as %d tokens, %v, want 80", hit, ok)
	}
	c.release(&first, time.Second)
	if c.pinned != 5 || c.free != 0 {
		t.Errorf("%d blocks pinned and %d free while another holds them, want 5 and 0", c.pinned, c.free)
	}
	c.release(&second, time.Second)
}

func TestBlocksOfACacheThatIsOff(t *testing.T) {
	t.Parallel()
	c := newCache(9, 16)
	c.enabled = false
	for range 2 {
		if hit := outside(t, c, 0, 70, 1, 2, 3, 4); hit != 0 {
			t.Errorf("%d tokens were cached", hit)
		}
	}
}
