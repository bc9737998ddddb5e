package collector

import "time"

// Call is one request as the gateway logged it. It holds nothing that tells who
// made it: the session is a hash that means nothing outside of this process.
type Call struct {
	// Session is a hash of the session's id, seeded anew in every process; 0 is
	// a call without a session.
	Session uint64
	// Start and End are when the gateway began and ended the call; FirstToken is
	// when the first chunk came, and equals End where the answer was not streamed.
	// FirstToken is zero where the table does not tell. All are UTC.
	Start, FirstToken, End time.Time
	// Model is the model that served the call as the gateway calls it
	// ("hosted_vllm/qwen"), ModelGroup the name of the group that served it, and
	// RequestedModel the name that the client asked for.
	Model, ModelGroup, RequestedModel string
	// Deployment is the gateway's id of the replica, Host the host and port of
	// its address; empty where the table does not tell.
	Deployment, Host string
	// Failed is a call, or an attempt of one, that the gateway logged as failed.
	Failed bool
	// Answered says that the gateway answered from its own response cache, so
	// that no engine saw the call.
	Answered bool
	// PromptTokens and OutputTokens are 0 where the call failed.
	PromptTokens, OutputTokens int64
	// CachedTokens is how many of PromptTokens came from the prefix cache. It
	// speaks only where CachedKnown: not reported is not 0.
	CachedTokens int64
	CachedKnown  bool
}

// CallRound is what one read of a gateway's log yielded. The slice is reused: it
// is valid until the function that was given the round returns.
type CallRound struct {
	// Source is the name of the log.
	Source string
	// Time is when the read began.
	Time time.Time
	// From is how far back the log is read: calls that began before are not known.
	From  time.Time
	State State
	// Reason says in plain words what is wrong and what to do; empty when up. It
	// never holds a secret.
	Reason string
	// Calls holds each call once, in the order in which they began within one
	// round. Calls that took long come in a later round than those that began
	// after them.
	Calls []Call
	// More says that there are calls that were not read yet.
	More bool
}
