package console

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"
)

// maxProfileSeconds bounds one profile.
const maxProfileSeconds = 300

// profile answers with a CPU profile of the process in pprof's form. It is on
// the private socket only. There can be one at a time.
func profile(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.URL.Query().Get("seconds"))
	if err != nil || seconds < 1 || seconds > maxProfileSeconds {
		writeError(w, badRequest("a profile takes 1 to %d seconds, got %q", maxProfileSeconds, r.URL.Query().Get("seconds")))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := pprof.StartCPUProfile(w); err != nil {
		writeError(w, fmt.Errorf("start CPU profile: %w", err))
		return
	}
	defer pprof.StopCPUProfile()
	select {
	case <-r.Context().Done():
	case <-time.After(time.Duration(seconds) * time.Second):
	}
}
