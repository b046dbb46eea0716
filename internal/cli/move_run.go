package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"varve/internal/move"
)

// standbyEvery is how often a mover that waits for another's end looks.
const standbyEvery = 2 * time.Second

func newMoveRun() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Carry a move on: copy, follow, verify, mirror, and what other commands ask for",
		Long: "Carry a move on until it is finished or aborted. It can be stopped and started again at any moment;\n" +
			"a second one waits until the first has ended. SIGTERM ends it at once and loses nothing.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, _, err := moveFile(args)
			if err != nil {
				return err
			}
			ctx, log := cmd.Context(), moveLog(false)
			store, err := openMoveState(ctx, f)
			if err != nil {
				return err
			}
			defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
			if address != "" {
				stop, err := serveMove(address, store, f.Name, log)
				if err != nil {
					return err
				}
				defer stop()
			}
			return runMover(ctx, store, f.Name, log)
		},
	}
	cmd.Flags().StringVar(&address, "http", "", "address for /metrics and /status, none by default")
	return cmd
}

// runMover carries the move on, and waits while another mover does.
func runMover(ctx context.Context, store move.StateStore, name string, log *slog.Logger) error {
	o := move.Options{Store: store, Open: openMoveSides(log), Owner: moveOwner(), Logger: log}
	for {
		err := move.Run(ctx, name, o)
		switch {
		case err == nil, ctx.Err() != nil:
			return nil // the move is over, or this process was told to stop
		case errors.Is(err, move.ErrNoMove), errors.Is(err, move.ErrFile):
			return err
		case errors.Is(err, move.ErrLeaseHeld):
			log.Debug("another mover carries the move on, waiting for its end")
		default:
			log.Warn("the mover begins again", "reason", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(standbyEvery):
		}
	}
}

// serveMove answers /metrics and /status.
func serveMove(address string, store move.StateStore, name string, log *slog.Logger) (func(), error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(moveMetrics(store, name, log), promhttp.HandlerOpts{}))
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) {
		s, err := loadMoveStatus(r.Context(), store, name, 20)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := s.json(w); err != nil {
			log.Debug("status was not sent", "err", err)
		}
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not served any more", "err", err)
		}
	}()
	log.Info("serving metrics", "http", l.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
		<-done
	}, nil
}
