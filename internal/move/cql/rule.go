package cql

import (
	"context"
	"fmt"
	"slices"

	"varve/internal/move"
)

// CheckRule implements move.Side by reading the table once.
func (s *Side) CheckRule(ctx context.Context, rule *move.Rule, limit int) ([]move.Row, error) {
	if len(rule.Unique) > 0 {
		return s.duplicates(ctx, rule, limit)
	}
	return s.violations(ctx, rule, limit)
}

// duplicates finds rows that share the values of columns that ought to be
// unique. The first pass keeps a hash of each row, the second looks only at
// rows whose hash came twice.
func (s *Side) duplicates(ctx context.Context, rule *move.Rule, limit int) ([]move.Row, error) {
	s.relist(rule.Table)
	var hashes []uint64
	err := s.scan(ctx, rule.Table, move.Range{}, listAgeRead, 0, func(rows []move.Row) bool {
		for _, row := range rows {
			if h, ok := hashOf(row, rule.Unique); ok {
				hashes = append(hashes, h)
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(hashes)
	twice := map[uint64]map[string][]move.Row{}
	for i := 1; i < len(hashes); i++ {
		if hashes[i] == hashes[i-1] {
			twice[hashes[i]] = map[string][]move.Row{}
		}
	}
	hashes = nil
	if len(twice) == 0 {
		return nil, nil
	}
	t := s.tables[rule.Table]
	err = s.scan(ctx, rule.Table, move.Range{}, listAgeRead, 0, func(rows []move.Row) bool {
		for _, row := range rows {
			h, ok := hashOf(row, rule.Unique)
			if same := twice[h]; ok && same != nil {
				id := string(move.EncodeRow(nil, pick(row, rule.Unique)))
				same[id] = append(same[id], t.KeyOf(row))
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	var out []move.Row
	for _, same := range twice {
		for _, keys := range same {
			if len(keys) > 1 {
				out = append(out, keys...)
			}
		}
	}
	slices.SortFunc(out, t.compareKeys)
	return out[:min(len(out), limit)], nil
}

func pick(row move.Row, columns []int) move.Row {
	out := make(move.Row, len(columns))
	for i, c := range columns {
		out[i] = row[c]
	}
	return out
}

// hashOf is false for rows with a null among the columns, which SQL's unique
// constraints let pass.
func hashOf(row move.Row, columns []int) (uint64, bool) {
	values := pick(row, columns)
	for _, v := range values {
		if v == nil {
			return 0, false
		}
	}
	return move.HashBytes(move.EncodeRow(nil, values), 1), true
}

// violations finds rows for which the rule's condition is false.
func (s *Side) violations(ctx context.Context, rule *move.Rule, limit int) ([]move.Row, error) {
	if rule.Check == nil {
		return nil, fmt.Errorf("rule %s says nothing", rule.Name)
	}
	t := s.tables[rule.Table]
	s.relist(rule.Table)
	var out []move.Row
	var broken error
	err := s.scan(ctx, rule.Table, move.Range{}, listAgeRead, 0, func(rows []move.Row) bool {
		for _, row := range rows {
			var wrong bool
			if wrong, broken = rule.Check.False(&t.Table, row); broken != nil {
				return false
			}
			if wrong {
				out = append(out, t.KeyOf(row))
			}
		}
		return len(out) < limit
	})
	if broken != nil {
		return nil, fmt.Errorf("rule %s: %w", rule.Name, broken)
	}
	return out[:min(len(out), limit)], err
}
