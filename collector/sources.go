package collector

// SourceInfo describes one kind of metrics page that can be read.
type SourceInfo struct {
	Name string
	// Families are the canonical names that are kept; what a page holds beside
	// them is dropped before it is decoded.
	Families []string
}

// Sources lists what this build can read, in the order of the registry.
func Sources() []SourceInfo {
	var all []SourceInfo
	for _, s := range registered.sources {
		info := SourceInfo{Name: s.name}
		for _, f := range s.families {
			info.Families = append(info.Families, f.name)
		}
		all = append(all, info)
	}
	return all
}
