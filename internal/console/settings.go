package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"varve/internal/config"
	"varve/internal/exec"
)

// Settings are the configuration in force. What may change while the server
// runs can be set; it holds until the next start.
type Settings struct {
	limits *exec.Limits

	mu sync.Mutex
	c  config.Config
}

// NewSettings takes a valid configuration, and gives its limits to the executor.
func NewSettings(c *config.Config, limits *exec.Limits) *Settings {
	s := &Settings{c: *c, limits: limits}
	apply(&s.c, limits)
	return s
}

// List lists all settings in the order of the configuration.
func (s *Settings) List() []exec.Setting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []exec.Setting
	for _, kv := range s.c.Values() {
		out = append(out, exec.Setting{Name: kv[0], Value: kv[1]})
	}
	return out
}

// liveSettings may be set while the server runs, and so may all guardrails.
var liveSettings = []string{
	"slow_query_log_timeout", "tombstone_warn_threshold", "tombstone_failure_threshold", "tombstones_counted",
	"batch_size_warn_threshold", "batch_size_fail_threshold",
	"read_request_timeout", "range_request_timeout", "write_request_timeout",
}

func live(name string) bool {
	if slices.Contains(liveSettings, name) {
		return true
	}
	for _, f := range exec.AllGuardFlags() {
		if f.Setting() == name {
			return true
		}
	}
	base, warn := strings.CutSuffix(name, "_warn_threshold")
	if !warn {
		base = strings.TrimSuffix(name, "_fail_threshold")
	}
	return slices.ContainsFunc(exec.AllGuardrails(), func(g exec.Guardrail) bool { return g.Name() == base && base != name })
}

// Set sets some settings together, or none of them.
func (s *Settings) Set(values map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.c
	for name, value := range values {
		if !slices.Contains(config.Keys(), name) {
			return badRequest("there is no setting %q", name)
		}
		if !live(name) {
			return badRequest("%s cannot be set while the server runs: set it in the configuration and start again", name)
		}
		if err := next.Set(name, value); err != nil {
			return badRequest("Invalid value for %v", err)
		}
	}
	if err := next.Validate(); err != nil {
		return badRequest("%v", err)
	}
	s.c = next
	apply(&s.c, s.limits)
	return nil
}

// apply gives a configuration's limits to the executor.
func apply(c *config.Config, l *exec.Limits) {
	l.TombstoneWarn.Store(c.TombstoneWarnThreshold)
	l.TombstoneFail.Store(c.TombstoneFailureThreshold)
	l.TombstonesAll.Store(c.TombstonesCounted == "all")
	l.BatchWarnBytes.Store(int64(c.BatchSizeWarnThreshold))
	l.BatchFailBytes.Store(int64(c.BatchSizeFailThreshold))
	l.SlowQueryMillis.Store(c.SlowQueryLogTimeout.Milliseconds())
	l.ReadTimeoutMillis.Store(c.ReadRequestTimeout.Milliseconds())
	l.RangeTimeoutMillis.Store(c.RangeRequestTimeout.Milliseconds())
	l.WriteTimeoutMillis.Store(c.WriteRequestTimeout.Milliseconds())
	for _, g := range exec.AllGuardrails() {
		warn, fail, ok := c.Threshold(g.Name())
		if !ok {
			panic(fmt.Sprintf("BUG: guardrail %s has no setting", g.Name()))
		}
		l.Guardrails.Set(g, warn, fail)
	}
	for _, f := range exec.AllGuardFlags() {
		allowed, ok := c.Allowed(f.Setting())
		if !ok {
			panic("BUG: guardrail " + f.Setting() + " has no setting")
		}
		l.Guardrails.Allow(f, allowed)
	}
}
