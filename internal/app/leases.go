package app

import (
	"context"
	"time"

	"patchbay/internal/store"
)

// leases are the rights that one instance at a time has.
type leases struct {
	store    store.Leases
	instance string
}

// take takes or renews a right for a duration. It reports false while another instance has it.
func (l leases) take(ctx context.Context, name string, d time.Duration) (bool, error) {
	now := time.Now()
	return l.store.Take(ctx, name, l.instance, now, now.Add(d))
}

func (l leases) release(ctx context.Context, name string) error {
	return l.store.Release(ctx, name, l.instance)
}

// named returns take and release for one right.
func (l leases) named(name string) (func(context.Context, time.Duration) (bool, error), func(context.Context) error) {
	return func(ctx context.Context, d time.Duration) (bool, error) { return l.take(ctx, name, d) },
		func(ctx context.Context) error { return l.release(ctx, name) }
}
