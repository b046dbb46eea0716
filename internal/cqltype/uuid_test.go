package cqltype

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimeuuidBounds(t *testing.T) {
	const millis = 1420106400123 // 2015-01-01 10:00:00.123 UTC
	low, high := MinTimeuuid(millis), MaxTimeuuid(millis)
	if got := string(AppendUUID(nil, low[:])); got != "f2bb14b0-919c-11e4-8080-808080808080" {
		t.Errorf("minimum is %s", got)
	}
	if got := string(AppendUUID(nil, high[:])); got != "f2bb3bbf-919c-11e4-7f7f-7f7f7f7f7f7f" {
		t.Errorf("maximum is %s", got)
	}
	for _, u := range [][16]byte{low, high} {
		if got, ok := TimeuuidUnixMillis(u[:]); !ok || got != millis {
			t.Errorf("time is %d, %v", got, ok)
		}
	}
}

func TestTimeuuidOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ticks := rapid.Int64Range(0, 1<<60-1)
		a, b := ticks.Draw(rt, "a"), ticks.Draw(rt, "b")
		low := rapid.Uint64().Draw(rt, "low")
		u, v := TimeuuidAt(a, low), TimeuuidAt(b, low)
		if Validate(Timeuuid, u[:]) != nil {
			rt.Fatalf("%x is no timeuuid", u)
		}
		if got, ok := TimeuuidTicks(u[:]); !ok || got != a {
			rt.Fatalf("ticks of %x are %d, want %d", u, got, a)
		}
		if got := sign(Compare(Timeuuid, u[:], v[:])); got != boolCompare(a > b, a < b) {
			rt.Fatalf("%d and %d compare as %d", a, b, got)
		}
	})
}

// TestTimeuuidGenerator checks that UUIDs differ and grow although the clock
// stands still or goes back.
func TestTimeuuidGenerator(t *testing.T) {
	now := time.UnixMilli(1420106400123)
	g := NewTimeuuidGenerator(func() time.Time { return now })
	last := g.Next()
	for i := range 1000 {
		if i == 500 {
			now = now.Add(-time.Hour)
		}
		next := g.Next()
		if Compare(Timeuuid, last[:], next[:]) >= 0 {
			t.Fatalf("%x follows %x", next, last)
		}
		last = next
	}
	if last[8]&0xC0 != 0x80 || last[10]&1 == 0 {
		t.Errorf("%x has not the variant and the multicast bit", last)
	}
}

func TestTimeuuidGeneratorConcurrent(t *testing.T) {
	g := NewTimeuuidGenerator(time.Now)
	var mu sync.Mutex
	seen := map[[16]byte]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				u := g.Next()
				mu.Lock()
				if seen[u] {
					t.Errorf("%x came twice", u)
				}
				seen[u] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestRandomUUID(t *testing.T) {
	a, b := NewRandomUUID(), NewRandomUUID()
	if a == b || a[6]>>4 != 4 || a[8]&0xC0 != 0x80 {
		t.Errorf("%x, %x", a, b)
	}
	back, err := ParseUUID(string(AppendUUID(nil, a[:])))
	if err != nil || back != a {
		t.Errorf("%x is read back as %x, %v", a, back, err)
	}
}
