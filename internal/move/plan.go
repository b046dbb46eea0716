package move

import (
	"context"
	"fmt"
)

// Plan is what a move would find and do; making it changes nothing.
type Plan struct {
	File     *File
	Sides    [2]string
	Tables   [2][]Table
	Rows     []int64 // estimated, of each table
	Findings []PlanFinding
	Steps    []string
}

// PlanFinding is a finding with the side it is about.
type PlanFinding struct {
	Side string
	Finding
}

// Stops reports whether the move cannot start before something is mended.
func (p *Plan) Stops() bool {
	for _, f := range p.Findings {
		if f.Stops {
			return true
		}
	}
	return false
}

func bindSides(ctx context.Context, f *File, sides [2]Side) ([]PlanFinding, [2][]Table, error) {
	var tables [2][]Table
	var out []PlanFinding
	for part, s := range sides {
		bound, findings, err := s.Bind(ctx, Part(part), f.Maps(), tables[Origin])
		if err != nil {
			return nil, tables, fmt.Errorf("look at the tables of %s: %w", Part(part), err)
		}
		tables[part] = bound
		stops := false
		for _, fi := range findings {
			out = append(out, PlanFinding{Part(part).String(), fi})
			stops = stops || fi.Stops
		}
		if len(bound) != len(f.Tables) && !stops {
			return nil, tables, fmt.Errorf("%s knows %d of %d tables", Part(part), len(bound), len(f.Tables))
		}
		if stops {
			break // the other side cannot be bound without these tables
		}
	}
	return out, tables, nil
}

// MakePlan looks at both sides.
func MakePlan(ctx context.Context, f *File, origin, target Side) (*Plan, error) {
	sides := [2]Side{origin, target}
	p := &Plan{File: f, Sides: [2]string{origin.String(), target.String()}}
	findings, tables, err := bindSides(ctx, f, sides)
	if err != nil {
		return nil, err
	}
	p.Findings, p.Tables = findings, tables
	if p.Stops() {
		return p, nil
	}
	if _, err := f.rules(tables[Origin]); err != nil {
		p.Findings = append(p.Findings, PlanFinding{"move file", Finding{Stops: true, Object: "rules", What: err.Error()}})
	}
	for part, s := range sides {
		found, err := s.Check(ctx, Part(part))
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", Part(part), err)
		}
		for _, fi := range found {
			p.Findings = append(p.Findings, PlanFinding{Part(part).String(), fi})
		}
	}
	for t := range tables[Origin] {
		n, err := origin.Rows(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("estimate the rows of %s: %w", tables[Origin][t].Name, err)
		}
		p.Rows = append(p.Rows, n)
	}
	p.Steps = steps(f)
	return p, nil
}

// steps says what the move will do to both sides, in order.
func steps(f *File) []string {
	b := &f.Budgets
	return []string{
		"origin: create schema varve_move (state, history, the canary's table), a publication and slot for " + f.Name +
			"_fwd, and triggers on every moved table that can hold up writers",
		"target: create what keeps the applied position, the canary's table and the fence, which is up from now on: only the move writes there",
		fmt.Sprintf("measure the app's latency for %s, then copy in ranges, at %g rows a second at least, while it stays under %g times that",
			b.Baseline, b.MinRate, b.CopyLatency),
		"follow every change of origin, whole transactions in commit order",
		"compare every row on both sides, and again each row that changes",
		"target: open a stream for " + f.Name + "_rev, whose changes will go back to origin; prove both directions with a row of the move's own",
		fmt.Sprintf("when told to: compare shadow reads (%d must agree), switch reads by percentage (back by itself above %g times origin's p95)",
			b.Comparisons, b.ReadLatency),
		fmt.Sprintf("when told to: cut over, writers held up for at most %s; then origin refuses writers and is kept whole by the mirror", b.Deadline),
		"when told to: roll back in the same way, or finish: drop both streams and the target's fence, and leave origin closed to writers",
	}
}
