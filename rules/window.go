package rules

// EngineWindow is all that a rule may see of one engine at one instant.
type EngineWindow struct{}

// PoolWindow is all that a rule may see of one pool at one instant.
type PoolWindow struct{}

// GatewayWindow is all that a rule may see of one gateway at one instant.
type GatewayWindow struct{}

// TargetWindow is all that a rule may see of one target at one instant.
type TargetWindow struct{}

type poolDetector interface{}
type targetDetector interface{}

var ownFamilies []RecordingInfo

func sharedOverrides(o map[string]Override) (map[string]Override, error) { return o, nil }
