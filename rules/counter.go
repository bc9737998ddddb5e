package rules

// gapMax is the longest gap between two pages, in milliseconds, over which an
// increase is still believed.
const gapMax = 600_000

// partialDrop is the share of its old value that a gateway's sum may fall to
// before the fall counts as a restart: less is one worker's part that went.
const partialDrop = 0.2

// pageContext is what a page says about all of its counters.
type pageContext struct {
	// at is the page's time in Unix milliseconds.
	at int64
	// healthy says that the target was read within gapMax before this page, so
	// that a series that was not there then began at 0.
	healthy bool
	// restarted says that another process answers than on the page before.
	restarted bool
	// partial says that sums may fall without a restart (LiteLLM's workers).
	partial bool
	// sampled says that several workers answer in turn, each with counters of
	// its own: nothing that they differ by was added.
	sampled bool
}

// change is what a value of a counter is to the value before it.
type change int

const (
	// changeGrown is the normal case: the difference was added.
	changeGrown change = iota
	// changeBorn is a series that began at 0 since the page before: all of it was added.
	changeBorn
	// changeReset is a series that began again at 0: all of it was added.
	changeReset
	// changeBaseline is a value of which nothing is known to have been added just
	// now: the first sight of a target, or one after too long a gap.
	changeBaseline
	// changeShrunk is a sum that lost a part: nothing was added.
	changeShrunk
)

// counter is what is remembered of one series that only grows.
type counter struct {
	value float64
	// at is the time of value in Unix milliseconds; 0 before the first.
	at int64
}

// change says what v is to the value before it.
func (c counter) change(v float64, p pageContext) change {
	switch {
	case p.sampled:
		return changeBaseline
	case c.at == 0 && p.healthy:
		return changeBorn
	case c.at == 0 || p.at-c.at > gapMax:
		return changeBaseline
	case p.restarted:
		return changeReset
	case v >= c.value:
		return changeGrown
	case p.partial && v >= partialDrop*c.value:
		return changeShrunk
	default:
		return changeReset
	}
}

// step takes the next value. increase is what was added since the page before;
// skipped is what the source's total gained without being seen to be added.
func (c *counter) step(v float64, p pageContext) (increase, skipped float64, what change) {
	what = c.change(v, p)
	switch what {
	case changeGrown:
		increase = v - c.value
	case changeBorn, changeReset:
		increase = v
	case changeBaseline:
		if !p.sampled {
			skipped = max(v-c.value, 0)
		}
	case changeShrunk:
	}
	*c = counter{value: v, at: p.at}
	return increase, skipped, what
}
