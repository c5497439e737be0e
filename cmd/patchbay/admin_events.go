package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/app"
	"patchbay/internal/store"
)

// recordAdminEvent records an action of the command line as an admin event without a person.
func recordAdminEvent(ctx context.Context, b *app.Base, act, about string) error {
	return b.Store.AdminEvents.Add(ctx, store.AdminEvent{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now(),
		Action: act, About: about, Channel: "cli"})
}
