package fleet

import (
	"bytes"
	"io"
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

// One simulated hour of four engines of each profile, as a corpus needs it: the
// fleet alone, with its pages as numbers every 15 s, and with them as text.
func BenchmarkStepHour(b *testing.B) {
	outputs := map[string]func(b *testing.B, f *Fleet){
		"alone": func(*testing.B, *Fleet) {},
		"numbers": func(b *testing.B, f *Fleet) {
			for i := range f.engines {
				if err := f.EngineSnapshot(i, &benchSnapshots[i]); err != nil {
					b.Fatal(err)
				}
			}
			if err := f.GatewaySnapshot(&benchSnapshots[len(f.engines)]); err != nil {
				b.Fatal(err)
			}
		},
		"text": func(b *testing.B, f *Fleet) {
			for i := range f.engines {
				if err := f.EnginePage(i, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
			if err := f.GatewayPage(io.Discard); err != nil {
				b.Fatal(err)
			}
		},
	}
	for _, p := range Profiles() {
		for name, output := range outputs {
			b.Run(p.Name+"/"+name, func(b *testing.B) {
				f := mustNew(b, Config{Profile: p.Name, Seed: 1})
				b.ReportAllocs()
				now := time.Duration(0)
				for b.Loop() {
					for end := now + time.Hour; now < end; {
						now += sampleEvery
						f.Step(now)
						output(b, f)
					}
				}
				b.ReportMetric(24*b.Elapsed().Seconds()/float64(b.N), "s/day")
			})
		}
	}
}

// benchSnapshots are used again, as a reader of many pages would.
var benchSnapshots [5]Snapshot

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
