package bench

import (
	"testing"
	"time"
)

func TestScatterHitsEveryRowOnce(t *testing.T) {
	for _, m := range []int{1, 2, 1000, 99_991, 300_000} {
		seen := make([]bool, m)
		for i := range m {
			k := scatter(i, m)
			if seen[k] {
				t.Fatalf("row %d of %d is hit twice", k, m)
			}
			seen[k] = true
		}
	}
}

func TestSummary(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(i+1)*time.Microsecond)
	}
	r := Result{Seconds: 2}
	r.summarise(all)
	if r.N != 1000 || r.PerSecond != 500 || r.P50 != 501 || r.P99 != 991 || r.Worst != 1000 {
		t.Fatalf("%+v", r)
	}
	var none Result
	none.summarise(nil)
	if none.N != 0 || none.Worst != 0 {
		t.Fatalf("%+v", none)
	}
}

func TestValidate(t *testing.T) {
	ok := Options{Op: "read", N: 1, InFlight: 1, Conns: 1, Rows: 10, Channels: 2}
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]func(*Options){
		"operation": func(o *Options) { o.Op = "drop" },
		"count":     func(o *Options) { o.N = 0 },
		"rate":      func(o *Options) { o.Rate = -1 },
		"channels":  func(o *Options) { o.Channels = 11 },
	} {
		o := ok
		bad(&o)
		if o.Validate() == nil {
			t.Errorf("a bad %s is accepted", name)
		}
	}
}
