package move

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTouchedSurvives plays changes, comparisons, commits that fail and
// restarts at random: a key that was touched and not compared since must be
// told after a restart, and what nobody needs any more must not be kept.
func TestTouchedSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kept := map[string]string{}     // on the sink
		waiting := map[rowID]bool{}     // touched, whatever is durable
		uncommitted := map[rowID]bool{} // their changes come again after a restart
		tt := newTouched()
		tt.turnOn()
		log := tt.newLog()
		commit := func(fails bool) {
			progress := map[string]string{}
			durable := log.commit(progress)
			if fails {
				return
			}
			for k, v := range progress {
				if v == "" {
					delete(kept, k)
				} else {
					kept[k] = v
				}
			}
			durable()
			clear(uncommitted)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rowID{rapid.IntRange(0, 2).Draw(t, "table"), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1, 2:
				log.key(id)
				waiting[id], uncommitted[id] = true, true
			case 3:
				for _, s := range tt.take(time.Now().Add(time.Hour), 2) {
					tt.clear(s)
					delete(waiting, s.rowID)
				}
			case 4:
				commit(rapid.Bool().Draw(t, "fails"))
			case 5:
				s := tt.see(id)
				log.key(id)
				waiting[id], uncommitted[id] = true, true
				tt.clear(s) // its rows were read before the change
			case 6:
				tt = newTouched()
				tt.turnOn()
				log = tt.newLog()
				if err := log.load(kept); err != nil {
					t.Fatal(err)
				}
				for id := range uncommitted {
					log.key(id) // the stream tells it again
				}
			}
			for id := range waiting {
				if tt.see(id).version == 0 {
					t.Fatalf("%v is forgotten", id)
				}
			}
		}
		for _, s := range tt.take(time.Now().Add(time.Hour), 100) {
			tt.clear(s)
		}
		commit(false)
		commit(false)
		if n := tt.count(); n > 0 || len(kept) > 0 {
			t.Fatalf("%d keys and %v are left", n, slices.Collect(maps.Keys(kept)))
		}
	})
}

// TestTouchedLoses gives a table up whose keys are too many or unknown, for
// good until it was verified anew.
func TestTouchedLoses(t *testing.T) {
	tt := newTouched()
	log, other := tt.newLog(), tt.newLog()
	log.lose(1)
	if len(tt.lostTables()) > 0 {
		t.Error("tables are lost before anything was verified")
	}
	tt.turnOn()
	log.key(rowID{0, "a"})
	log.key(rowID{1, "a"})
	log.lose(1)
	log.key(rowID{1, "b"})
	progress := map[string]string{}
	log.commit(progress)()
	if progress["lost/1"] != "1" || tt.count() != 1 {
		t.Errorf("%v, %d keys", progress, tt.count())
	}
	again := newTouched()
	if err := again.newLog().load(progress); err != nil {
		t.Fatal(err)
	}
	if l := again.lostTables(); len(l) != 1 || l[0] != 1 || again.count() != 1 {
		t.Errorf("after a restart: %v, %d keys", l, again.count())
	}
	tt.found(1, log, other)
	progress = map[string]string{}
	log.commit(progress)()
	if v, ok := progress["lost/1"]; !ok || v != "" {
		t.Errorf("%v", progress)
	}
	for _, bad := range []map[string]string{{"lost/x": "1"}, {"touched/x": ""}, {"touched/1": "x y\n"}, {"touched/1": "1 ?\n"}, {"touched/1": "1 ={\n"}} {
		if err := newTouched().newLog().load(bad); err == nil || !strings.Contains(err.Error(), "read progress") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
