package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"varve/internal/move"
)

// Applied returns the position that a stream's writer last committed here, for
// readers that wait for a write of theirs to arrive.
func (s *Side) Applied(ctx context.Context, stream string) (move.Position, error) {
	var text string
	err := s.pool.QueryRow(ctx, `SELECT position FROM varve_move.applied WHERE stream = $1`, s.object(stream)).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) || missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("position of stream %s: %w", stream, err)
	}
	return move.ParsePosition(text)
}
