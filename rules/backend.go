package rules

import "slices"

// The labels of LiteLLM's series that tell deployments apart.
const (
	labelModelID        = "model_id"
	labelRequestedModel = "requested_model"
)

const (
	// backendOutage is the value of litellm_deployment_state for one that the
	// gateway has put aside.
	backendOutage = 2
	// mostBackends bounds what is kept of a gateway.
	mostBackends = 10_000
	// shownID is how many characters of a model_id people are shown: it is a
	// hash, and the first ones tell deployments apart.
	shownID = 8
)

// backend is one engine (or provider) behind a gateway, as the gateway tells
// of it. The collector has already joined its series, see there.
type backend struct {
	id string
	// state is 0 well, 1 failing at times, 2 put aside; since is when it became
	// so, in Unix milliseconds; page is the last one that told.
	state float64
	since int64
	page  int32
	// groups are the models that it was asked for.
	groups []string
}

func (b *backend) note(state float64, at int64, page int32) {
	if state != b.state || b.since == 0 {
		b.state, b.since = state, at
	}
	b.page = page
}

// serves notes a model that the deployment was asked for.
func (b *backend) serves(model string) {
	if model != "" && !slices.Contains(b.groups, model) {
		b.groups = append(b.groups, model)
	}
}

// name is the deployment as people are told of it.
func (b *backend) name() string { return shortID(b.id) }

// shortID is a model_id as people are told of it.
func shortID(id string) string {
	if len(id) <= shownID {
		return id
	}
	return id[:shownID]
}

// backendFor finds or makes the deployment.
func (t *target) backendFor(id string) *backend {
	if t.backends == nil {
		t.backends = map[string]*backend{}
	}
	if len(t.backends) >= mostBackends {
		id = ""
	}
	b := t.backends[id]
	if b == nil {
		b = &backend{id: id}
		t.backends[id] = b
	}
	return b
}
