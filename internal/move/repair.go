package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	repairKeys   = 200 // of one chunk
	repairRounds = 20  // for keys that change while they are repaired
)

// repair makes the rows that stand as differences as the leading side has
// them, deletes included, through the flow that leads away from it, and looks
// at them again. It returns how many it mended.
func (v *verifier) repair(ctx context.Context, f *flow) (int, error) {
	ds, _, err := v.store.Differences(ctx, v.move, 1<<20)
	if err != nil {
		return 0, err
	}
	byTable := map[int][]rowID{}
	for _, d := range ds {
		if d.Kind != Broken {
			byTable[d.Table] = append(byTable[d.Table], rowID{d.Table, string(d.Key)})
		}
	}
	n := 0
	for table, ids := range byTable {
		for chunk := range slices.Chunk(ids, repairKeys) {
			if err := f.put(ctx, table, chunk, false); err != nil {
				return n, fmt.Errorf("repair rows of %s: %w", v.tables[table].Name, err)
			}
			mended, err := v.repaired(ctx, chunk)
			if err != nil {
				return n, err
			}
			n += mended
		}
	}
	return n, nil
}

// put writes rows as the source has them now, again for those that change
// meanwhile.
func (f *flow) put(ctx context.Context, table int, ids []rowID, refill bool) error {
	for range repairRounds {
		again, err := f.sendKeys(ctx, chunkRepair, table, ids, refill)
		if errors.Is(err, errVoid) {
			if err := f.ready(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if len(again) == 0 {
			return nil
		}
		ids = again
	}
	return fmt.Errorf("%d rows changed every time they were read, %d times", len(ids), repairRounds)
}

// repaired compares repaired rows and takes those that are equal off the
// differences.
func (v *verifier) repaired(ctx context.Context, ids []rowID) (int, error) {
	wrong, err := v.confirm(ctx, ids)
	if err != nil {
		return 0, err
	}
	var good []rowID
	for _, id := range ids {
		if !slices.ContainsFunc(wrong, func(p pair) bool { return p.id == id }) {
			good = append(good, id)
		}
	}
	return len(good), v.mended(ctx, good)
}

// fill writes the rows whose changes the sink refused, and leaves those that
// it refuses again. It returns how many are left.
func (f *flow) fill(ctx context.Context) (int, error) {
	f.mu.Lock()
	byTable := map[int][]rowID{}
	for id := range f.refill {
		byTable[id.table] = append(byTable[id.table], id)
	}
	f.mu.Unlock()
	var refusal error
	for table, ids := range byTable {
		for chunk := range slices.Chunk(ids, repairKeys) {
			if err := f.fillSome(ctx, table, chunk); err != nil {
				if ctx.Err() != nil {
					return 0, err
				}
				refusal = err
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.refill), refusal
}

// fillSome halves a set of rows until those that are refused stand alone.
func (f *flow) fillSome(ctx context.Context, table int, ids []rowID) error {
	err := f.put(ctx, table, ids, true)
	var refused *RowError
	if err == nil || !errors.As(err, &refused) || len(ids) == 1 {
		return err
	}
	if err := f.ready(ctx); err != nil {
		return err
	}
	half := len(ids) / 2
	return errors.Join(f.fillSome(ctx, table, ids[:half]), f.fillSome(ctx, table, ids[half:]))
}
