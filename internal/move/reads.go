package move

import (
	"context"
	"fmt"
	"time"
)

const budgetReads = "target read p95"

// shadowed adds up what the app nodes compared since the shadow began, and
// their greatest p95 of reads on either side, in milliseconds.
func (m *Mover) shadowed(ctx context.Context) (compared, different int64, p95 [2]float64, nodes int, err error) {
	all, err := m.o.Store.Nodes(ctx, m.lease.Move)
	if err != nil {
		return 0, 0, p95, 0, err
	}
	for _, n := range all {
		if n.Epoch != m.rec.ShadowSince {
			continue
		}
		nodes++
		compared += n.Compared
		different += n.Different
		p95[Origin] = max(p95[Origin], n.OriginReadP95)
		p95[Target] = max(p95[Target], n.TargetReadP95)
	}
	return compared, different, p95, nodes, nil
}

// switchReads sends a share of the reads to the target.
func (m *Mover) switchReads(ctx context.Context, i *Intent) (*Result, error) {
	percent, err := percentOf(i.Args)
	if err != nil {
		return nil, err
	}
	if err := m.in(Shadowing, ReadsSwitched); err != nil {
		return nil, err
	}
	if percent == 0 {
		return nil, m.answer(ctx, i, done("all reads go to origin"), func(r *Record) { r.State, r.ReadPercent = Shadowing, 0 })
	}
	compared, different, p95, nodes, err := m.shadowed(ctx)
	if err != nil {
		return nil, err
	}
	b := &m.file.Budgets
	var no []string
	if nodes == 0 {
		no = append(no, "no app node reports shadow reads")
	}
	if different > 0 {
		no = append(no, fmt.Sprintf("%d of %d shadow reads differed; see the samples, then `varve move shadow` to count anew", different, compared))
	}
	if compared < b.Comparisons {
		no = append(no, fmt.Sprintf("%d shadow reads were compared, the mark is %d", compared, b.Comparisons))
	}
	base := p95[Origin]
	if limit, ok := m.readLimit(); ok {
		base = limit / b.ReadLatency
	}
	if base == 0 || p95[Target] == 0 {
		no = append(no, "no app node has reported how long reads take on both sides")
	} else if p95[Target] > b.ReadLatency*base {
		no = append(no, fmt.Sprintf("reads take %.2f ms on the target, the mark is %g times the %.2f ms of origin", p95[Target], b.ReadLatency, base))
	}
	if err := m.v.clean(ctx); err != nil {
		no = append(no, err.Error())
	}
	if len(no) > 0 {
		return nil, &refused{no}
	}
	if i.Args["dry-run"] == "true" {
		return done("nothing forbids to switch %d%% of the reads", percent), nil
	}
	measured := float64(compared)
	return nil, m.answer(ctx, i, done("%d%% of the reads go to the target", percent), func(r *Record) {
		for j := range r.Budgets {
			if bu := &r.Budgets[j]; bu.Step == ReadsSwitched && bu.Least && bu.Measured == nil {
				bu.Measured = &measured
			}
		}
		if r.State == Shadowing {
			r.Budgets = append(r.Budgets, Budget{
				Step: ReadsSwitched, Name: budgetReads, Limit: b.ReadLatency * base, Unit: "ms", Set: time.Now(),
				Rule: fmt.Sprintf("%g times the %.2f ms of origin", b.ReadLatency, base),
			})
		}
		r.State, r.ReadPercent = ReadsSwitched, percent
	})
}

// readLimit is the p95 at which reads go back, once it is written down.
func (m *Mover) readLimit() (float64, bool) {
	if m.rec.State != ReadsSwitched {
		return 0, false
	}
	for j := len(m.rec.Budgets) - 1; j >= 0; j-- {
		if b := &m.rec.Budgets[j]; b.Name == budgetReads {
			return b.Limit, true
		}
	}
	return 0, false
}

// guardReads takes the reads back when the target passes its mark, or when
// answers differ.
func (m *Mover) guardReads(ctx context.Context) error {
	limit, ok := m.readLimit()
	if !ok {
		return nil
	}
	_, different, p95, _, err := m.shadowed(ctx)
	if err != nil {
		return err
	}
	why := ""
	switch {
	case p95[Target] > limit:
		why = fmt.Sprintf("reads took %.2f ms on the target, the mark is %.2f", p95[Target], limit)
	case different > 0:
		why = fmt.Sprintf("%d reads differed between both sides", different)
	default:
		return nil
	}
	return m.to(ctx, func(r *Record) {
		r.State, r.ReadPercent = Shadowing, 0
		for j := range r.Budgets {
			if b := &r.Budgets[j]; b.Name == budgetReads && b.Limit == limit {
				b.Measured = &p95[Target]
			}
		}
	}, "reads go back to origin: "+why)
}
