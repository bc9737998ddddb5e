package fleet

import "math/rand/v2"

// router chooses the engine of a call, as the gateway's session affinity does:
// the engine that a session was on, and for a new session the one with the
// fewest sessions.
type router struct {
	random *rand.Rand
	// affinity is the share of calls that follow their session, 0 to 1; the
	// others go anywhere.
	affinity float64
	// homes remembers the engine of each session, sessions how many each has.
	homes    map[uint64]int
	sessions []int
	// inFlight, where it is set, tells how many calls an engine has. New
	// sessions then go where there are fewest, and where sessions are fewest
	// among equals.
	inFlight func(engine int) int
	// cooling says which deployments get no calls.
	cooling []bool
}

func newRouter(random *rand.Rand, engines int) *router {
	return &router{
		random: random, affinity: 1, homes: map[uint64]int{},
		sessions: make([]int, engines), cooling: make([]bool, engines),
	}
}

// choose returns the engine for a call of a session, never the one to avoid
// (-1 for none) as long as there is another.
func (r *router) choose(session uint64, avoid int) int {
	draw := r.random.Float64() // drawn always, so that scenarios share their random numbers
	anywhere := r.random.IntN(len(r.sessions))
	if draw >= r.affinity {
		return r.usable(anywhere, avoid)
	}
	home, known := r.homes[session]
	if known && home != avoid && !r.cooling[home] {
		return home
	}
	if known {
		r.sessions[home]--
	}
	home = r.leastLoaded(anywhere, avoid)
	r.homes[session] = home
	r.sessions[home]++
	return home
}

// usable is the first engine from at on that may be called.
func (r *router) usable(at, avoid int) int {
	for i := range r.sessions {
		if engine := (at + i) % len(r.sessions); engine != avoid && !r.cooling[engine] {
			return engine
		}
	}
	return at
}

// leastLoaded is the usable engine with the fewest sessions; ties go to the
// first from at on.
func (r *router) leastLoaded(at, avoid int) int {
	best := r.usable(at, avoid)
	for i := range r.sessions {
		engine := (at + i) % len(r.sessions)
		if engine != avoid && !r.cooling[engine] && r.lighter(engine, best) {
			best = engine
		}
	}
	return best
}

// lighter says whether an engine has less load than another.
func (r *router) lighter(engine, other int) bool {
	if r.inFlight != nil {
		if a, b := r.inFlight(engine), r.inFlight(other); a != b {
			return a < b
		}
	}
	return r.sessions[engine] < r.sessions[other]
}

// end forgets a session that is over.
func (r *router) end(session uint64) {
	if home, ok := r.homes[session]; ok {
		r.sessions[home]--
		delete(r.homes, session)
	}
}

// forget loses all sessions' homes, as a gateway without a shared store does
// when it restarts.
func (r *router) forget() {
	clear(r.homes)
	clear(r.sessions)
}
