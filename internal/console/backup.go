package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"varve/internal/backup"
)

// BackupRequest asks for a backup called Name under Dir (a path on the server's machine).
type BackupRequest struct{ Dir, Name string }

// handleStream registers a long call: it sends Progress lines while f works.
func handleStream[Req any](mux *http.ServeMux, pattern string,
	f func(ctx context.Context, req Req, progress func(done, total int64)) (any, error),
) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var req Req
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(&req); err != nil {
			writeError(w, badRequest("%v", err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var mu sync.Mutex
		var last time.Time
		enc, flush := json.NewEncoder(w), http.NewResponseController(w)
		send := func(p Progress) {
			mu.Lock()
			defer mu.Unlock()
			if final := p.Finished || p.Error != ""; !final && time.Since(last) < 200*time.Millisecond {
				return
			}
			last = time.Now()
			_ = enc.Encode(p)
			_ = flush.Flush()
		}
		result, err := f(r.Context(), req, func(done, total int64) { send(Progress{Done: done, Total: total}) })
		if err != nil {
			send(Progress{Error: strings.TrimPrefix(err.Error(), ErrBadRequest.Error()+": ")})
			return
		}
		text, err := json.Marshal(result)
		if err != nil {
			send(Progress{Error: err.Error()})
			return
		}
		send(Progress{Finished: true, Result: text})
	})
}

func (a *Admin) backup(ctx context.Context, r BackupRequest, progress func(done, total int64)) (any, error) {
	if !filepath.IsAbs(r.Dir) {
		return nil, badRequest("backup directory %q is not an absolute path", r.Dir)
	}
	if dir, err := a.within(r.Dir); err != nil {
		return nil, err
	} else if dir != "" {
		return nil, badRequest("backup directory %s is inside %s, which is the store's own; a backup belongs elsewhere", r.Dir, dir)
	}
	m, err := backup.Create(ctx, a.Store, r.Dir, r.Name, progress)
	if err != nil {
		return nil, err
	}
	m.Files = nil // the caller shows a summary
	return m, nil
}

// within returns which of the store's directories holds path, "" for none.
// Parts of path need not exist yet.
func (a *Admin) within(path string) (string, error) {
	path, err := resolve(path)
	if err != nil {
		return "", fmt.Errorf("backup directory: %w", err)
	}
	for _, dir := range append(append([]string(nil), a.Config.DataDirectories...), a.Config.JournalDirectories...) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		real, err := filepath.EvalSymlinks(abs)
		if err != nil {
			return "", err
		}
		if rel, err := filepath.Rel(real, path); err == nil && filepath.IsLocal(rel) {
			return dir, nil
		}
	}
	return "", nil
}

// resolve follows the links in the part of an absolute path that exists.
func resolve(path string) (string, error) {
	rest := ""
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", err
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
