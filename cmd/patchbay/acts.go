package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/app"
	"patchbay/internal/store"
)

// noteAct keeps in the journal of the installation what was done to it by the command
// line, which is nobody's.
func noteAct(ctx context.Context, b *app.Base, act, about string) error {
	return b.Store.Acts.Add(ctx, store.Act{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now(), Act: act, About: about, Door: "cli"})
}
