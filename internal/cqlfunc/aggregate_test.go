package cqlfunc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"varve/internal/cqltype"
)

// TestAggregates runs the aggregates over "type: value …". The recorded
// answers are those of Cassandra 5.0.9.
func TestAggregates(t *testing.T) {
	datadriven.RunTest(t, "testdata/aggregates", func(t *testing.T, d *datadriven.TestData) string {
		name, values, _ := strings.Cut(d.Input, ":")
		typ := namedType(t, name)
		var b strings.Builder
		for _, fn := range []string{"sum", "avg", "min", "max", "count"} {
			_, agg, err := Resolve(fn, []Arg{{Type: typ}}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := agg.New()
			var first []byte
			for range 2 { // the second time after Reset
				buf := make([]byte, 0, 64)
				for _, v := range strings.Fields(values) {
					val, err := cqltype.FromText(typ, v)
					if err != nil {
						t.Fatal(err)
					}
					buf = append(buf[:0], val...)
					addRow(t, s, buf)
					clear(buf) // the state must have kept nothing
					addRow(t, s, nil)
				}
				r, err := s.Result()
				if err != nil {
					t.Fatal(err)
				}
				if first != nil && !bytes.Equal(first, r) {
					t.Fatalf("%s: %x, after Reset %x", fn, first, r)
				}
				first = bytes.Clone(r)
				s.Reset()
			}
			fmt.Fprintf(&b, "%s %s\n", fn, cqltype.AppendJSON(nil, agg.Return, first))
		}
		return b.String()
	})
}

func addRow(t *testing.T, s State, v []byte) {
	t.Helper()
	if err := s.Add([][]byte{v}); err != nil {
		t.Fatal(err)
	}
}

func namedType(t *testing.T, name string) *cqltype.Type {
	for _, b := range blobTypes {
		if b.name == name {
			return b.t
		}
	}
	t.Fatalf("no type %s", name)
	return nil
}

func TestCount(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []Arg
		want int64
	}{
		{"count", nil, 3},
		{"count_rows", nil, 3},
		{"countRows", nil, 3},
		{"count", []Arg{{Type: cqltype.Text}}, 2},
		{"system.count", []Arg{{Type: cqltype.MapOf(cqltype.Int, cqltype.Int)}}, 2},
	} {
		_, agg, err := Resolve(tc.name, tc.args, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := agg.New()
		for _, v := range [][]byte{{1}, nil, {}} {
			row := [][]byte{v}
			if tc.args == nil {
				row = nil
			}
			if err := s.Add(row); err != nil {
				t.Fatal(err)
			}
		}
		if r, _ := s.Result(); cqltype.DecodeBigint(r) != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, cqltype.DecodeBigint(r), tc.want)
		}
	}
}

func TestExtremesOfAnyType(t *testing.T) {
	for _, tc := range []struct {
		typ      *cqltype.Type
		values   []string
		min, max string
	}{
		{cqltype.Text, []string{"b", "a", "c"}, "a", "c"},
		{cqltype.Boolean, []string{"true", "false"}, "false", "true"},
		{cqltype.Date, []string{"2020-01-02", "1969-01-01"}, "1969-01-01", "2020-01-02"},
		{cqltype.Inet, []string{"10.0.0.2", "10.0.0.1"}, "10.0.0.1", "10.0.0.2"},
	} {
		for fn, want := range map[string]string{"min": tc.min, "max": tc.max} {
			_, agg, err := Resolve(fn, []Arg{{Type: tc.typ}}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := agg.New()
			for _, v := range tc.values {
				b, err := cqltype.FromText(tc.typ, v)
				if err != nil {
					t.Fatal(err)
				}
				addRow(t, s, b)
			}
			r, _ := s.Result()
			if got := string(cqltype.AppendText(nil, tc.typ, r)); got != want {
				t.Errorf("%s of %s: %s, want %s", fn, tc.typ, got, want)
			}
		}
	}
}
