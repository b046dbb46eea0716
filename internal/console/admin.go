package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"varve/internal/config"
	"varve/internal/exec"
	"varve/internal/schema"
	"varve/internal/store"
)

// Admin answers administration requests. Its methods are the JSON calls under
// /v1/ that Client makes.
type Admin struct {
	Store   *store.Store
	Catalog *schema.Catalog
	Engine  *exec.Engine
	Config  *config.Config
	// Settings are those in force, of which Config may have become outdated.
	Settings *Settings
	Node     exec.Node
	Version  string
	Started  time.Time

	snapshotMu sync.Mutex // snapshots of one name would share an unfinished directory
}

// ErrBadRequest marks errors that are the caller's: an unknown table, a bad name.
var ErrBadRequest = errors.New("bad request")

func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadRequest}, args...)...)
}

// Info is what nodetool info, status and version show.
type Info struct {
	HostID          string
	ClusterName     string
	Datacenter      string
	Rack            string
	Address         string
	ReleaseVersion  string
	Version         string
	UptimeSeconds   int64
	Started         int64 // seconds since the epoch
	HeapUsedBytes   int64
	HeapLimitBytes  int64 // 0: none
	LoadBytes       int64
	Tokens          []int64
	SchemaVersion   string
	CacheBytes      int64
	CacheLimitBytes int64
	CacheHits       int64
	CacheMisses     int64
}

// TablesRequest names tables; no tables means all of the keyspace, no keyspace all of them.
type TablesRequest struct {
	Keyspace string
	Tables   []string
}

// TableStats is one table's figures.
type TableStats struct {
	Keyspace, Table string
	store.TableStats
	GCGraceSeconds int32
}

// AutoCompaction tells whether the store compacts on its own.
type AutoCompaction struct {
	On bool `json:"on"`
}

// Thresholds are the tombstone thresholds.
type Thresholds struct{ Warn, Fail int64 }

// Keyspace is a keyspace's replication, for describecluster.
type Keyspace struct {
	Name        string
	Replication map[string]string
}

// Handler returns the administration routes.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	handle(mux, "GET /v1/info", func(_ context.Context, _ struct{}) (Info, error) { return a.info() })
	handle(mux, "GET /v1/keyspaces", func(_ context.Context, _ struct{}) ([]Keyspace, error) { return a.keyspaces(), nil })
	handle(mux, "POST /v1/tablestats", func(_ context.Context, r TablesRequest) ([]TableStats, error) { return a.tableStats(r) })
	handle(mux, "POST /v1/flush", func(ctx context.Context, r TablesRequest) (struct{}, error) {
		return struct{}{}, a.each(ctx, r, a.Store.Flush)
	})
	handle(mux, "POST /v1/compact", func(ctx context.Context, r TablesRequest) (struct{}, error) {
		return struct{}{}, a.each(ctx, r, a.Store.Compact)
	})
	handle(mux, "GET /v1/thresholds", func(_ context.Context, _ struct{}) (Thresholds, error) {
		l := a.Engine.Limits()
		return Thresholds{l.TombstoneWarn.Load(), l.TombstoneFail.Load()}, nil
	})
	handle(mux, "GET /v1/settings", func(_ context.Context, _ struct{}) ([]exec.Setting, error) { return a.Settings.List(), nil })
	handle(mux, "POST /v1/settings", func(_ context.Context, v map[string]string) (struct{}, error) {
		return struct{}{}, a.Settings.Set(v)
	})
	handle(mux, "POST /v1/thresholds", func(_ context.Context, t Thresholds) (struct{}, error) {
		return struct{}{}, a.setThresholds(t)
	})
	handle(mux, "GET /v1/autocompaction", func(_ context.Context, _ struct{}) (AutoCompaction, error) {
		return AutoCompaction{On: !a.Store.CompactionsPaused()}, nil
	})
	handle(mux, "POST /v1/autocompaction", func(_ context.Context, r AutoCompaction) (struct{}, error) {
		a.Store.PauseCompactions(!r.On)
		return struct{}{}, nil
	})
	handle(mux, "POST /v1/why", a.why)
	handle(mux, "POST /v1/snapshot", a.snapshot)
	handle(mux, "GET /v1/snapshots", func(_ context.Context, _ struct{}) ([]Snapshot, error) { return a.snapshots() })
	handle(mux, "POST /v1/clearsnapshot", func(_ context.Context, r ClearRequest) (struct{}, error) {
		return struct{}{}, a.clearSnapshot(r)
	})
	handleStream(mux, "POST /v1/backup", a.backup)
	handleStream(mux, "POST /v1/wouldundo", a.wouldUndo)
	mux.HandleFunc("GET /v1/profile", profile)
	return mux
}

// maxRequestBytes bounds an administration request's body.
const maxRequestBytes = 1 << 20

type errorBody struct {
	Error string
	Bad   bool // the caller's mistake
}

func handle[Req, Resp any](mux *http.ServeMux, pattern string, f func(context.Context, Req) (Resp, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var req Req
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(&req); err != nil {
				writeError(w, badRequest("%v", err))
				return
			}
		}
		resp, err := f(r.Context(), req)
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(resp)
	})
}

func writeError(w http.ResponseWriter, err error) {
	body := errorBody{Error: err.Error(), Bad: errors.Is(err, ErrBadRequest)}
	status := http.StatusInternalServerError
	if body.Bad {
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// ListenSocket opens the Unix socket at path, in place of one that a killed server left.
func (a *Admin) ListenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old admin socket: %w", err)
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("open admin socket: %w", err)
	}
	return l, nil
}

// Serve answers on the socket until ctx ends.
func (a *Admin) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, l, a.Handler(), nil)
}

// serve runs an HTTP server on l until ctx ends, then lets requests finish.
// What clients do wrong, a failed TLS handshake above all, goes to log as debug.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close()
		}
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http on %s: %w", l.Addr(), err)
	}
	<-stopped
	return nil
}

func (a *Admin) info() (Info, error) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m := a.Store.Metrics()
	return Info{
		HostID: uuidText(a.Node.HostID), ClusterName: a.Node.ClusterName,
		Datacenter: a.Node.Datacenter, Rack: a.Node.Rack, Address: a.Node.Address.String(),
		ReleaseVersion: a.Node.ReleaseVersion, Version: a.Version,
		UptimeSeconds: int64(time.Since(a.Started).Seconds()), Started: a.Started.Unix(),
		HeapUsedBytes: int64(mem.HeapAlloc), HeapLimitBytes: int64(a.Config.MemoryLimit),
		LoadBytes: int64(m["disk_bytes"]), Tokens: a.Node.Tokens,
		SchemaVersion: uuidText(a.Catalog.Snapshot().Version),
		CacheBytes:    int64(m["block_cache_bytes"]), CacheLimitBytes: int64(a.Config.CacheSize),
		CacheHits: int64(m["block_cache_hits_total"]), CacheMisses: int64(m["block_cache_misses_total"]),
	}, nil
}

func uuidText(u schema.UUID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func (a *Admin) setThresholds(t Thresholds) error {
	if t.Warn < 0 || t.Fail < 0 {
		return badRequest("tombstone thresholds are counts, got warn %d and fail %d", t.Warn, t.Fail)
	}
	return a.Settings.Set(map[string]string{
		"tombstone_warn_threshold":    strconv.FormatInt(t.Warn, 10),
		"tombstone_failure_threshold": strconv.FormatInt(t.Fail, 10),
	})
}
