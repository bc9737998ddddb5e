package rules

func init() {
	record(Recording{
		Name: "kvwatch_gateway_saturation_ratio", Kind: KindGauge,
		Help:    "Requests in flight over what the gateway's workers may hold.",
		Gateway: func(w GatewayWindow, _ string) Result { return w.saturation() },
	})
}

// saturation is the requests in flight over the cap of all workers.
func (w GatewayWindow) saturation() Result {
	v, from, ok := w.inFlight()
	conf := w.unit.target.gateway
	switch {
	case !ok:
		return w.absent("the page has no litellm_in_flight_requests")
	case conf.Workers <= 0 || conf.MaxInFlightPerWorker <= 0:
		return w.absent("the page does not tell the cap: set gateway.workers and gateway.max_in_flight_per_worker in scrape_configs")
	}
	if w.sampled() { // one worker's requests, to be held against one worker's cap
		return w.known(v/float64(conf.MaxInFlightPerWorker), 0, from+" / max_in_flight_per_worker")
	}
	return w.known(v/float64(conf.Workers*conf.MaxInFlightPerWorker), 0, from+" / (workers × max_in_flight_per_worker)")
}
