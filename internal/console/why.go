package console

import (
	"context"
	"errors"
	"fmt"

	"varve/internal/cqlwire"
	"varve/internal/exec"
)

// why explains a partition; what the caller wrote wrongly is a bad request.
func (a *Admin) why(ctx context.Context, r exec.WhyRequest) (*exec.WhyAnswer, error) {
	out, err := a.Engine.Why(ctx, r)
	var we *cqlwire.Error
	if errors.As(err, &we) {
		return nil, fmt.Errorf("%w: %s", ErrBadRequest, we.Message)
	}
	return out, err
}
