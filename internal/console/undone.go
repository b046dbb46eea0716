package console

import (
	"context"
	"path/filepath"
	"time"

	"varve/internal/backup"
)

// wouldUndo tells which deletions a restore of a backup of this store would undo.
func (a *Admin) wouldUndo(ctx context.Context, r BackupRequest, _ func(done, total int64)) (any, error) {
	if !filepath.IsAbs(r.Dir) {
		return nil, badRequest("backup directory %q is not an absolute path", r.Dir)
	}
	return backup.WouldUndo(ctx, r.Dir, r.Name, a.Store, a.Catalog.Snapshot(), time.Now().Unix())
}
