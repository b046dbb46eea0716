// Package app is for applications whose tables are being moved by varve move.
// It sends each write to the side that is canonical and each read to the side
// that answers reads, waits and goes on where the fence refuses a write, and
// compares reads of both sides outside of the answer's way.
//
// A Node is one application process. Everything that touches a moved table
// goes through it:
//
//	node, err := app.Open(ctx, app.Config{Origin: originDSN, TargetHosts: hosts, Move: "chat"})
//	err = node.Write(ctx, session, func(ctx context.Context, side app.Side) error {
//		if side == app.Target {
//			return saveInVarve(ctx, message)
//		}
//		return saveInPostgres(ctx, message)
//	})
//	page, err := app.Read(ctx, node, session, app.Query[[]Message]{
//		Name: "page", Run: func(ctx context.Context, side app.Side) ([]Message, error) { … },
//	})
//
// Before a move is created and after one was aborted, everything goes to
// origin. docs/moving.md tells the whole way.
package app
