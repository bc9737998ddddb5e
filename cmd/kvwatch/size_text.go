package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"kvwatch/rules/sizing"
)

// sizeText is a worksheet for people: what is needed first, then how it follows.
func sizeText(p *sizing.Plan, w *sizing.Worksheet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Plan %s", w.Plan)
	for _, about := range []string{p.Date, p.Owner, p.Model.Name} {
		if about != "" {
			fmt.Fprintf(&b, ", %s", about)
		}
	}
	b.WriteByte('\n')
	writeNeeds(&b, w)
	writeList(&b, "To look at", w.Findings)
	writeSteps(&b, w)
	writeUnknown(&b, w)
	writeList(&b, "Assumed, because the plan does not say", w.Assumed)
	writeSensitivity(&b, w)
	writeLevers(&b, w)
	writeCosts(&b, p, w)
	writeSettings(&b, w, cmp.Or(p.Model.Name, "MODEL"))
	writeReferences(&b, p)
	return b.String()
}

func writeNeeds(b *strings.Builder, w *sizing.Worksheet) {
	table := heading(b, "What the load needs, and what is planned")
	fmt.Fprintln(table, "  resource\tneeded\tplanned")
	for _, resource := range sizing.Resources() {
		cell := func(of map[string]float64) string {
			if v, ok := of[resource]; ok {
				return figure(v)
			}
			return "unknown"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", resource, cell(w.Required), cell(w.Planned))
	}
	_ = table.Flush()
}

// heading begins a section; what it holds is written to the table.
func heading(b *strings.Builder, title string) *tabwriter.Writer {
	fmt.Fprintf(b, "\n%s\n", title)
	return tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
}

func writeList(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, line := range lines {
		fmt.Fprintf(b, "  - %s\n", line)
	}
}

func writeSteps(b *strings.Builder, w *sizing.Worksheet) {
	fmt.Fprint(b, "\nStep by step\n")
	for _, s := range w.Steps {
		if s.Value == nil {
			continue
		}
		of := ""
		if profile, ok := s.Inputs["profile"]; ok {
			of = fmt.Sprintf(" (%v)", profile)
		}
		fmt.Fprintf(b, "  %s%s = %s\n", s.Name, of, quantity(*s.Value, s.Unit))
		source, _, _ := strings.Cut(s.Source, "; assumed")
		fmt.Fprintf(b, "      %s  [%s]\n", s.Formula, source)
		inputs := make([]string, 0, len(s.Order))
		for _, name := range s.Order {
			if v, ok := s.Inputs[name].(float64); ok {
				inputs = append(inputs, name+" "+figure(v))
			}
		}
		fmt.Fprintf(b, "      %s\n", strings.Join(inputs, ", "))
	}
}

func writeUnknown(b *strings.Builder, w *sizing.Worksheet) {
	var lines []string
	for _, s := range w.Steps {
		if s.Value == nil {
			name := s.Name
			if profile, ok := s.Inputs["profile"]; ok {
				name += fmt.Sprintf(" (%v)", profile)
			}
			lines = append(lines, name+": unknown: "+strings.Join(s.Unknown, ", "))
		}
	}
	writeList(b, "Not computed", lines)
}

func writeSensitivity(b *strings.Builder, w *sizing.Worksheet) {
	if len(w.Sensitivity) == 0 {
		return
	}
	table := heading(b, fmt.Sprintf("Needed %s when an assumption is 20 %% off, the greatest effect first", w.SensitivityOf))
	fmt.Fprintln(table, "  assumption\t20 % less\t20 % more")
	var idle []string
	for _, s := range w.Sensitivity {
		if !s.Matters() {
			idle = append(idle, s.Assumption)
			continue
		}
		cell := func(v *float64) string {
			if v == nil {
				return "unknown"
			}
			return figure(*v)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Assumption, cell(s.Low), cell(s.High))
	}
	_ = table.Flush()
	if len(idle) > 0 {
		fmt.Fprintf(b, "  no effect: %s\n", strings.Join(idle, ", "))
	}
}

func writeLevers(b *strings.Builder, w *sizing.Worksheet) {
	table := heading(b, "Levers, what saves most first; each is the plan reckoned again")
	fmt.Fprintln(table, "  lever\tgpus\tsequences per replica\thow\tnote")
	for _, l := range w.Levers {
		cell := func(v *float64) string {
			switch {
			case l.Reported:
				return "not reckoned"
			case v == nil:
				return "-"
			default:
				return figure(*v)
			}
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", l.Name, cell(l.GPUs), cell(l.Seats), l.Change, l.Note)
	}
	_ = table.Flush()
}

// writeCosts says in words what the costs come to, where there are prices.
func writeCosts(b *strings.Builder, p *sizing.Plan, w *sizing.Worksheet) {
	value := func(name string) (float64, bool) {
		if s, ok := w.Step(name); ok && s.Value != nil {
			return *s.Value, true
		}
		return 0, false
	}
	currency := cmp.Or(p.Cost.Currency, "(currency not named)")
	var lines []string
	if hour, ok := value("eur_per_gpu_hour"); ok {
		lines = append(lines, fmt.Sprintf("An hour of a GPU costs %.2f %s at a utilisation of %.0f %%.", hour, currency, 100**p.Cost.Utilisation))
	}
	if million, ok := value("eur_per_million_tokens"); ok {
		lines = append(lines, fmt.Sprintf("A million output tokens cost %.3f %s.", million, currency))
	}
	if even, ok := value("break_even_utilisation"); ok {
		text := fmt.Sprintf("Owning breaks even with renting at a utilisation of %.1f %%", 100*even)
		switch {
		case even > 1:
			text += ": never"
		case p.Cost.Utilisation == nil:
		case *p.Cost.Utilisation >= even:
			text += fmt.Sprintf("; the plan's %.0f %% is above it: owning costs less", 100**p.Cost.Utilisation)
		default:
			text += fmt.Sprintf("; the plan's %.0f %% is below it: renting costs less", 100**p.Cost.Utilisation)
		}
		lines = append(lines, text+".")
	}
	if months, ok := value("payback_months"); ok {
		text := fmt.Sprintf("The capex is saved after %.1f months", months)
		if years := p.Cost.Years; years != nil && months > *years*12 {
			text += fmt.Sprintf(", later than the %.3g years over which it is written off", *years)
		}
		lines = append(lines, text+".")
	} else if s, ok := w.Step("payback_months"); ok && p.Cost.CloudPricePerGPUHour != nil {
		lines = append(lines, "The capex is saved: "+strings.Join(s.Unknown, ", ")+".")
	}
	writeList(b, "Costs", lines)
}

func writeSettings(b *strings.Builder, w *sizing.Worksheet, model string) {
	engine := heading(b, "For vLLM: vllm serve "+model)
	for _, s := range w.Settings {
		if !s.Gateway {
			fmt.Fprintf(engine, "  --%s %s\t# %s\n", s.Name, setTo(s.Value), s.Reason)
		}
	}
	_ = engine.Flush()
	gateway := heading(b, "For LiteLLM")
	for _, s := range w.Settings {
		if s.Gateway {
			fmt.Fprintf(gateway, "  %s: %s\t# %s\n", s.Name, setTo(s.Value), s.Reason)
		}
	}
	_ = gateway.Flush()
}

func writeReferences(b *strings.Builder, p *sizing.Plan) {
	table := heading(b, "Measured elsewhere (article A; three systems, not to be averaged), and the plan's own")
	for _, r := range p.References() {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", r.What, cmp.Or(strings.Join(r.Own, ", "), "-"), r.Measured)
	}
	_ = table.Flush()
}

// quantity spells a value with its unit; bytes also in GB and GiB.
func quantity(v float64, unit string) string {
	of, isBytes := strings.CutPrefix(unit, "B")
	switch {
	case !isBytes || of != "" && of[0] != ' ':
		return figure(v) + " " + unit
	case math.Abs(v) < 1<<26:
		return fmt.Sprintf("%s B (%.5g MiB)%s", figure(v), v/(1<<20), of)
	default:
		return fmt.Sprintf("%.4g GB (%.4g GiB)%s", v/sizing.GB, v/sizing.GiB, of)
	}
}

// figure spells a number for people: from 10 000 on whole, in groups of three
// digits; below with four digits.
func figure(v float64) string {
	if math.Abs(v) < 1e4 || math.Abs(v) > 1e16 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}

// setTo spells the value of a setting as one writes it.
func setTo(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	default:
		return fmt.Sprint(v)
	}
}
