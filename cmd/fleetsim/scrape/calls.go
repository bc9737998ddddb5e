package scrape

import (
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
)

// Calls is what a collector reads of the gateway's table of calls, in simulated
// time: what SpendLogs writes, without the way over a file.
type Calls struct {
	config fleet.Config
	// ended are the calls that were not read yet, in the order in which they ended.
	ended []collector.Call
	read  []collector.Call
}

// NewCalls makes the log of a fleet, which must be told of calls by Take.
func NewCalls(config fleet.Config) *Calls { return &Calls{config: config} }

// Take notes a call that ended.
func (l *Calls) Take(c fleet.CallRecord) { l.ended = append(l.ended, l.call(c)) }

func (l *Calls) call(c fleet.CallRecord) collector.Call {
	at := func(t time.Duration) time.Time { return l.config.Start.Add(t).UTC().Truncate(time.Millisecond) }
	call := collector.Call{
		Session: c.Session, Start: at(c.Began), FirstToken: at(c.FirstToken), End: at(c.Ended),
		Model: "hosted_vllm/" + l.config.Model, ModelGroup: l.config.GatewayModel, RequestedModel: l.config.GatewayModel,
		Deployment: fleet.EngineName(c.Engine), Host: fleet.EngineName(c.Engine) + ":8000",
		PromptTokens: int64(c.PromptTokens), OutputTokens: int64(c.Output), CachedTokens: int64(c.CachedTokens), CachedKnown: true,
	}
	switch {
	case c.Failed:
		call.Failed, call.FirstToken = true, call.End
		call.PromptTokens, call.OutputTokens, call.CachedTokens, call.CachedKnown = 0, 0, 0, false
	case !c.Streamed:
		call.FirstToken = call.End
	}
	return call
}

// Read gives what a read at a simulated time finds since the read before. The
// round is valid until the next one.
func (l *Calls) Read(at time.Duration) *collector.CallRound {
	n := 0
	until := l.config.Start.Add(at - spendFlush)
	for n < len(l.ended) && !l.ended[n].End.After(until) {
		n++
	}
	l.read = append(l.read[:0], l.ended[:n]...)
	l.ended = append(l.ended[:0], l.ended[n:]...)
	return &collector.CallRound{
		Source: "spend_logs", Time: l.config.Start.Add(at), From: l.config.Start, State: collector.StateUp, Calls: l.read,
	}
}
