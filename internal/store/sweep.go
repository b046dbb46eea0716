package store

import "context"

func (s *Store) sweepLoop(ctx context.Context) { <-ctx.Done() }
