package main

import (
	"strings"
	"testing"
)

func insertAt(ts int64, val string, ttl int64) *op {
	return &op{kind: "insert", lo: 10, hi: 11, ts: ts, sent: 100, acked: 102, effect: func(g *region, sent, acked int64) {
		w := cell{ts: ts, val: val, live: true}
		if ttl > 0 {
			w.from, w.to = sent+ttl, acked+ttl
		}
		g.rows[0].cells[marker].write(w)
		g.rows[0].cells[colV].write(w)
	}}
}

func deleteAt(ts int64) *op {
	return &op{kind: "delete", lo: 10, hi: 11, ts: ts, effect: func(g *region, _, _ int64) { g.rows[0].del = max(g.rows[0].del, ts) }}
}

func TestModelTellsLostFromRisen(t *testing.T) {
	row := func(v string) []got { return []got{{c: 10, vals: [columns]string{colV: v}}} }
	for name, c := range map[string]struct {
		ops  []*op
		read []got
		at   int64
		want string // "" for right
	}{
		"written":                  {[]*op{insertAt(5, "a", 0)}, row("a"), 200, ""},
		"lost":                     {[]*op{insertAt(5, "a", 0)}, nil, 200, "LOST"},
		"other value":              {[]*op{insertAt(5, "a", 0)}, row("b"), 200, "WRONG"},
		"null":                     {[]*op{insertAt(5, "a", 0)}, row(""), 200, "LOST"},
		"deleted":                  {[]*op{insertAt(5, "a", 0), deleteAt(6)}, nil, 200, ""},
		"risen":                    {[]*op{insertAt(5, "a", 0), deleteAt(6)}, row("a"), 200, "RISEN"},
		"late write under a grave": {[]*op{deleteAt(6), insertAt(5, "a", 0)}, row("a"), 200, "RISEN"},
		"write after a grave":      {[]*op{deleteAt(6), insertAt(7, "a", 0)}, nil, 200, "LOST"},
		"before expiry":            {[]*op{insertAt(5, "a", 30)}, nil, 129, "LOST"},
		"about to expire, there":   {[]*op{insertAt(5, "a", 30)}, row("a"), 131, ""},
		"about to expire, gone":    {[]*op{insertAt(5, "a", 30)}, nil, 131, ""},
		"expired":                  {[]*op{insertAt(5, "a", 30)}, row("a"), 132, "RISEN"},
		"never written":            {nil, row("a"), 200, "RISEN"},
	} {
		g := newRegion("t", 1, 10, 1, false)
		for _, o := range c.ops {
			o.apply(g)
		}
		bad := g.compare(c.read, 10, 11, false, c.at, c.at)
		if (len(bad) > 0) != (c.want != "") || c.want != "" && !strings.HasPrefix(bad[0], c.want) {
			t.Errorf("%s: %q, want %q", name, bad, c.want)
		}
	}
}

func TestCompareSeesOrderAndDuplicates(t *testing.T) {
	g := newRegion("t", 1, 0, 3, false)
	for i := range 3 {
		w := cell{ts: 5, val: "x", live: true}
		g.rows[i].cells[marker].write(w)
	}
	up := []got{{c: 0}, {c: 1}, {c: 2}}
	down := []got{{c: 2}, {c: 1}, {c: 0}}
	if bad := g.compare(up, 0, 3, false, 1, 1); bad != nil {
		t.Error(bad)
	}
	if bad := g.compare(down, 0, 3, true, 1, 1); bad != nil {
		t.Error(bad)
	}
	if bad := g.compare(down, 0, 3, false, 1, 1); bad == nil {
		t.Error("the wrong order passes")
	}
	if bad := g.compare([]got{{c: 0}, {c: 1}, {c: 1}, {c: 2}}, 0, 3, false, 1, 1); bad == nil {
		t.Error("a row that comes twice passes")
	}
}

func TestFlatTellsGrowth(t *testing.T) {
	flat, grows := make([]int64, 60), make([]int64, 60)
	for i := range flat {
		flat[i] = 100<<20 + int64(i%7)<<20
		grows[i] = 100<<20 + int64(i)*25<<20
	}
	if _, ok := flatDisk(flat); !ok {
		t.Error("a flat disk is called growing")
	}
	if _, ok := flatDisk(grows); ok {
		t.Error("a growing disk is called flat")
	}
}
