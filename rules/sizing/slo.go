package sizing

import (
	"errors"
	"fmt"
	"math"
)

// HoursPerYear is 365 days of 24 hours, as S counts.
const HoursPerYear = 8760

// PeakOutputTPS is the output tokens per second of the busy hour (S step 1).
func PeakOutputTPS(peakFactor, requestsPerDay, outputTokens, activeHours float64) float64 {
	return peakFactor * requestsPerDay * outputTokens / (activeHours * 3600)
}

// RhoMax is the utilisation at which requests wait on average that long
// (Pollaczek and Khinchine): 2W/(2W + s(1+C2)), for a mean service time s and
// its squared coefficient of variation C2; times in one unit. It rises with the
// wait that is allowed; the formula that S prints falls.
func RhoMax(wait, service, cv2 float64) float64 {
	return 2 * wait / (2*wait + service*(1+cv2))
}

// rhoTable is S's table of utilisations, by the wait allowed in milliseconds.
var rhoTable = []struct{ wait, rho float64 }{ //nolint:gochecknoglobals // a table of the source, never written.
	{200, 0.55},
	{300, 0.63},
	{400, 0.70},
	{500, 0.75},
}

// RhoMaxFromTable is the utilisation by S's table, interpolated, where neither
// service time nor its variation are known. Beyond 200 to 500 ms the table says
// nothing, and it is an error.
func RhoMaxFromTable(waitMilliseconds float64) (float64, error) {
	for i := 1; i < len(rhoTable); i++ {
		low, high := rhoTable[i-1], rhoTable[i]
		if waitMilliseconds >= low.wait && waitMilliseconds <= high.wait {
			return low.rho + (high.rho-low.rho)*(waitMilliseconds-low.wait)/(high.wait-low.wait), nil
		}
	}
	return 0, fmt.Errorf("the table goes from %.0f to %.0f ms, and %.0f ms is outside", rhoTable[0].wait, rhoTable[len(rhoTable)-1].wait, waitMilliseconds)
}

// RequiredTPS is the capacity to install so that the peak leaves the utilisation
// at rho, in tokens per second (S step 3).
func RequiredTPS(peakTPS, rho float64) float64 { return peakTPS / rho }

// GPUs is how many GPUs a capacity takes (S step 4).
func GPUs(requiredTPS, tpsPerGPU float64) float64 { return Ceil(requiredTPS / tpsPerGPU) }

// Nodes is how many whole nodes those GPUs take (S step 4), before head-room.
func Nodes(gpus, gpusPerNode float64) float64 { return Ceil(gpus / gpusPerNode) }

// NodesWithHeadroom adds a share for failures and upgrades (S step 4).
func NodesWithHeadroom(nodes, headroom float64) float64 { return Ceil(nodes * (1 + headroom)) }

// NodeCostPerYear is what a node costs each year (S 2.1): capex in equal parts,
// and opex.
func NodeCostPerYear(capex, years, opexPerYear float64) float64 { return capex/years + opexPerYear }

// CostPerGPUHour is what an hour of a GPU costs that is used that share of the
// time (S 2.2).
func CostPerGPUHour(nodeCostPerYear, gpusPerNode, utilisation float64) float64 {
	return nodeCostPerYear / (gpusPerNode * HoursPerYear * utilisation)
}

// CostPerMillionTokens is what a million output tokens cost at that many tokens
// per second and GPU (S 2.3). Take the tokens within the SLO, not all of them.
func CostPerMillionTokens(costPerGPUHour, tpsPerGPU float64) float64 {
	return costPerGPUHour * 1e6 / (tpsPerGPU * 3600)
}

// BreakEvenUtilisation is the utilisation above which owning costs less than
// renting (S 3.1). Above 1 it is never.
func BreakEvenUtilisation(nodeCostPerYear, gpusPerNode, cloudPricePerGPUHour float64) float64 {
	return nodeCostPerYear / (gpusPerNode * HoursPerYear * cloudPricePerGPUHour)
}

// ErrNeverPaysBack says that renting costs no more than running what one owns.
var ErrNeverPaysBack = errors.New("never: renting the same hours costs no more than the opex of owning")

// PaybackMonths is after how many months a node has saved its capex (S 3.2):
// what the same hours would cost rented, less opex. The capex is not counted a
// second time, as S's own table does.
func PaybackMonths(capex, opexPerYear, gpusPerNode, cloudPricePerGPUHour, utilisation float64) (float64, error) {
	saved := cloudPricePerGPUHour*gpusPerNode*HoursPerYear*utilisation - opexPerYear
	if saved <= 0 {
		return 0, ErrNeverPaysBack
	}
	return capex / saved * 12, nil
}

// SaturationYears is after how many years a utilisation reaches 1 when demand
// grows by that share each year (S 5.4).
func SaturationYears(utilisation, growthPerYear float64) float64 {
	return math.Log(1/utilisation) / math.Log1p(growthPerYear)
}

// HeadroomCost is what the head-room costs each year (S 5.5): that share of the
// nodes before head-room.
func HeadroomCost(headroom, nodeCostPerYear, nodes float64) float64 {
	return headroom * nodeCostPerYear * nodes
}
