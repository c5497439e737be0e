package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
)

// isOrphans reports whether a source has what belongs to no card of a collection, [apkg.Orphans].
func isOrphans(source string) bool { return strings.HasPrefix(source, transfer.OrphansSource) }

// completeOrphans changes the orphans of the file to those that are kept: with the present names of
// pictures and sounds, and with those of an earlier file that has the same name for them, as two
// collections with the same time of creation have.
func (in *importRun) completeOrphans(ctx context.Context) error {
	var there map[string]json.RawMessage
	for i := range in.sources {
		s := &in.sources[i]
		if !isOrphans(s.Name) {
			continue
		}
		var rows, earlier apkg.Orphans
		if json.Unmarshal(s.Data, &rows) != nil {
			continue // of a JSON file that was edited; it is not used
		}
		if there == nil {
			var err error
			if there, err = in.s.Store.Learn.Sources(ctx, in.l.Person); err != nil {
				return fmt.Errorf("look up notes without cards: %w", err)
			}
		}
		for j := range rows.Notes {
			renameInOrphan(&rows.Notes[j], in.mediaRun.renamed)
		}
		if data := there[s.Name]; data != nil && json.Unmarshal(data, &earlier) == nil {
			rows.Merge(&earlier)
		}
		text, err := json.Marshal(rows)
		if err != nil {
			return err
		}
		s.Data = text
	}
	return nil
}

// renameInOrphan replaces names of pictures and sounds in the fields of a note.
func renameInOrphan(n *apkg.OrphanNote, renamed map[string]string) {
	changed := false
	for i, f := range n.Fields {
		if to := note.Rename(f, renamed); to != f {
			n.Fields[i], changed = to, true
		}
	}
	if changed {
		n.Row.Fields = n.Fields
		n.Row.Refresh()
	}
}

// eachOrphan calls f for each field of the notes without cards of a person.
func (s *Service) eachOrphan(ctx context.Context, person string, f func(field string)) error {
	sources, err := s.Store.Learn.Sources(ctx, person)
	if err != nil {
		return err
	}
	for name, data := range sources {
		var rows apkg.Orphans
		if !isOrphans(name) || json.Unmarshal(data, &rows) != nil {
			continue
		}
		for i := range rows.Notes {
			for _, field := range rows.Notes[i].Fields {
				f(field)
			}
		}
	}
	return nil
}
