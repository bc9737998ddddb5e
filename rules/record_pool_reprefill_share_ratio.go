package rules

import (
	"fmt"

	"kvwatch/collector"
)

func init() {
	record(Recording{
		Name: "kvwatch_pool_reprefill_share_ratio", Kind: KindGauge,
		Help: "Share of the calls with a long prompt (over a fifth of a full one) that computed it again, over 15 minutes, or an hour where these hold too few.",
		Pool: poolReprefillShare,
	})
}

func poolReprefillShare(w PoolWindow, _ string) Result {
	s := w.pool.share
	told := offered(w, sourceHistograms)
	ratio, calls, d, ok := s.told(w)
	switch {
	case told == 0:
		return w.absent(reasonNoShare)
	case s.PromptBound == 0:
		return w.absent("the usual size of prompts is not known yet")
	case !ok:
		return w.absent(fmt.Sprintf("%s with a long prompt within %s: %d are needed", plural(int(calls), "call"), spell(shareLong), shareEvidence))
	}
	return w.known(ratio, d, told, fmt.Sprintf("%s over %g / %s over %g", collector.VLLMComputedHist, s.ComputedBound, collector.VLLMPromptHist, s.PromptBound))
}
