package hub

import (
	"context"
	"errors"
	"slices"

	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Fate tells the caller of a call whose result was lost with its server what the audit trail knows
// of it.
func (h *Hub) Fate(ctx context.Context, call string) (string, error) {
	row, err := h.Store.Calls.ByID(ctx, call)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	unknown := []tool.Code{tool.Lost, tool.Cancelled, tool.TimedOut, tool.Garbled}
	switch {
	case err != nil, row.Outcome == callNeedsInput, slices.Contains(unknown, tool.Code(row.Code)):
		return "It is not known whether the call was carried out.", nil
	case row.Outcome == callDone:
		return "The call was carried out.", nil
	case row.Outcome == callToolError:
		return "The call was carried out, and the tool reported an error.", nil
	case row.Outcome == callRefused:
		return "The call was not carried out.", nil
	}
	return "The call failed.", nil
}
