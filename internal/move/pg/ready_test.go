package pg

import (
	"context"
	"testing"
	"time"

	"varve/internal/move"
)

// TestReadyMeansAnEvent: keepalives and transactions of other tables make no
// event, and must not look like one: commits are held back for what is at hand.
func TestReadyMeansAnEvent(t *testing.T) {
	d := newDB(t, "CREATE TABLE a (k int PRIMARY KEY); CREATE TABLE other (k int)")
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "a"})
	st := follow(t, s, "out")
	for range 20 {
		must(s.Mark(ctx(t), "x"))(t)
		d.exec("INSERT INTO other VALUES (1)")
		expect(t, s, st, "mark x")
		for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until); {
			if !st.Ready() {
				continue
			}
			short, cancel := context.WithTimeout(ctx(t), 500*time.Millisecond)
			_, err := st.Next(short)
			cancel()
			if err != nil {
				t.Fatalf("nothing came though the stream was ready: %v", err)
			}
		}
	}
}
