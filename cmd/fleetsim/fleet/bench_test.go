package fleet

import (
	"bytes"
	"testing"
	"time"
)

// One simulated minute of the demo's fleet: 4 engines, some 17 calls a second.
func BenchmarkStepMinute(b *testing.B) {
	f := mustNew(b, Config{Seed: 1})
	b.ReportAllocs()
	now := time.Duration(0)
	for b.Loop() {
		now += time.Minute
		f.Step(now)
	}
}

func BenchmarkEnginePage(b *testing.B) {
	f := mustNew(b, Config{Seed: 1})
	var page bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		page.Reset()
		if err := f.EnginePage(0, &page); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(page.Len()))
}

func BenchmarkGatewayPage(b *testing.B) {
	for name, people := range map[string]int{"demo": 0, "1200 people": 1200} {
		b.Run(name, func(b *testing.B) {
			f := mustNew(b, Config{Seed: 1})
			f.FillGatewayPage(people)
			var page bytes.Buffer
			b.ReportAllocs()
			for b.Loop() {
				page.Reset()
				if err := f.GatewayPage(&page); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(page.Len()))
			b.ReportMetric(float64(page.Len())/1e6, "MB/page")
			b.ReportMetric(float64(bytes.Count(page.Bytes(), []byte("\n"))), "lines/page")
		})
	}
}
