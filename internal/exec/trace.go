package exec

// Trace collects a traced request's events; methods on nil do nothing.
type Trace struct{ traceState }

type traceState struct{}

// Event records one step.
func (t *Trace) Event(format string, args ...any) {
	if t == nil {
		return
	}
	panic(errUnwritten)
}
