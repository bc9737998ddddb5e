package fleet

import "time"

// call is one request of a client on its way through the gateway and an
// engine. Calls are used again: stamp tells an event of an earlier use.
type call struct {
	fleet        *Fleet
	stamp        uint64
	session      *session
	promptTokens int
	outputTokens int
	streamed     bool
	// sharedVersion and ownVersion differ between calls whose beginning differs.
	sharedVersion, ownVersion uint64
	// turn and step count from 0: the turn of the session, the call of the turn.
	turn, step int
	began      time.Duration
	// over says that the client has its answer or has given up.
	over bool

	worker int
	// passed is when the worker passed the call on, sent when the latest try
	// began at an engine, firstToken when its first token came.
	passed, sent, firstToken time.Duration
	engine                   int
	request                  request
	// asked says that an engine was sent the request, held that it has it.
	asked, held bool
	retried     bool
	// life is that of the gateway which took the call.
	life int
}

// newCall returns a call that is not in use.
func (f *Fleet) newCall() *call {
	if last := len(f.spareCalls) - 1; last >= 0 {
		c := f.spareCalls[last]
		f.spareCalls = f.spareCalls[:last]
		*c = call{fleet: f, stamp: c.stamp}
		return c
	}
	return &call{fleet: f}
}

// letGo keeps a call for another use once neither the client nor an engine has it.
func (c *call) letGo() {
	if c.over && !c.held {
		c.stamp++
		c.fleet.spareCalls = append(c.fleet.spareCalls, c)
	}
}

// happen passes an event on to the gateway, unless the call is another by now.
func (c *call) happen(what occasion, stamp uint64) {
	if stamp != c.stamp {
		return
	}
	g := c.fleet.gateway
	switch what {
	case occasionPassed:
		g.pass(c)
	case occasionAnswered:
		g.answer(c)
	case occasionLost:
		g.lost(c)
	case occasionTimedOut:
		g.timeOut(c)
	default:
	}
}

// answering notes when the first token left.
func (c *call) answering() { c.firstToken = c.fleet.now }

// finished passes the end of an answer on to the gateway.
func (c *call) finished() {
	c.held = false
	if c.over {
		c.letGo()
		return
	}
	c.fleet.queue.at(c.fleet.now+perAnswer, c, occasionAnswered, c.stamp)
}

// lostBy passes on to the gateway that an engine went down with the request.
func (c *call) lostBy(*engine) {
	c.held = false
	if c.over {
		c.letGo()
		return
	}
	c.fleet.queue.at(c.fleet.now, c, occasionLost, c.stamp)
}

// released is the end of a request whose client is gone.
func (c *call) released() {
	c.held = false
	c.letGo()
}

// CallRecord is what is known of one call at its end: what a gateway would
// write down about it, and the truth about its place in its session.
type CallRecord struct {
	Session uint64
	// User is the person, Engine the replica that answered, or had it last.
	User, Engine int
	// Turn and Step count from 0: the turn of the session, the call of the turn.
	Turn, Step int
	// Chat says that the session is not an agent's.
	Chat bool
	// Began, Sent, FirstToken and Ended are simulated times. A call that failed
	// has no FirstToken.
	Began, Sent, FirstToken, Ended time.Duration
	// Queued is how long it waited in the engine before it was first scheduled.
	Queued                             time.Duration
	PromptTokens, CachedTokens, Output int
	Streamed, Failed                   bool
}

// record tells the observer of the end of a call.
func (c *call) record(failed bool) {
	if c.fleet.config.Observe == nil {
		return
	}
	r := &c.request
	record := CallRecord{
		Session: c.session.id, User: c.session.user, Engine: c.engine, Turn: c.turn, Step: c.step, Chat: c.session.chat,
		Began: c.began, Sent: c.sent, FirstToken: c.firstToken, Ended: c.fleet.now,
		PromptTokens: c.promptTokens, CachedTokens: r.cached, Output: r.generated, Streamed: c.streamed, Failed: failed,
	}
	if r.scheduled > r.queued {
		record.Queued = r.scheduled - r.queued
	}
	c.fleet.config.Observe(record)
}
