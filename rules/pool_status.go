package rules

// PoolStatus is one pool as a person sees it.
type PoolStatus struct {
	Name      string       `json:"name"`
	ModelName string       `json:"model_name"`
	Engines   []PoolMember `json:"engines"`
	// Problem says what is wrong with the pool's membership; empty when nothing is.
	Problem string `json:"problem,omitempty"`
}

// PoolMember is one engine of a pool.
type PoolMember struct {
	Job      string `json:"job"`
	Instance string `json:"instance"`
	Engine   string `json:"engine"`
}
