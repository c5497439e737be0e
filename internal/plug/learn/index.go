package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"patchbay/internal/store"
)

const (
	// maxEmbedBytes limits the text of a point that is embedded: models take 8,192 tokens, and a
	// token has more than one byte.
	maxEmbedBytes = 8 << 10
	// indexBatch is how many points one request embeds, and indexPersonBatch how many points of one
	// person before the next person's turn.
	indexBatch       = 64
	indexPersonBatch = 1024
	// indexPeople is how many people one query returns.
	indexPeople = 500
)

// Index embeds the points of all people, in turns, that have no vector of the current model. It is
// called repeatedly, by one instance at a time; concurrent runs would duplicate work. It returns
// the first error that a later attempt may not meet. A text that the model rejects is skipped until
// it changes.
func (s *Service) Index(ctx context.Context) error {
	if s.Embedder == nil {
		return nil
	}
	model := s.Embedder.Model()
	for after := ""; ; {
		people, err := s.Store.Learn.PeopleLackingVectors(ctx, model, after, indexPeople)
		if err != nil {
			return fmt.Errorf("look up who lacks vectors: %w", err)
		}
		if len(people) == 0 {
			return nil
		}
		after = people[len(people)-1]
		begun := make(map[string]store.PointKey, len(people)) // where the indexing of each person continues
		for len(people) > 0 {
			var more []string
			for _, person := range people {
				last, done, err := s.indexPerson(ctx, person, model, begun[person])
				if err != nil {
					return err
				}
				if begun[person] = last; !done {
					more = append(more, person)
				}
			}
			people = more
		}
	}
}

// indexPerson embeds some of a person's points after a key.
func (s *Service) indexPerson(ctx context.Context, person, model string,
	after store.PointKey) (last store.PointKey, done bool, err error) {
	last = after
	for range indexPersonBatch / indexBatch {
		points, err := s.Store.Learn.WithoutVector(ctx, person, model, last, indexBatch)
		if err != nil {
			return last, false, fmt.Errorf("look up points without vectors: %w", err)
		}
		if len(points) == 0 {
			return last, true, nil
		}
		made, err := s.embedPoints(ctx, points)
		// Vectors made before an error are stored.
		if len(made) > 0 {
			if err := s.Store.Learn.SaveVectors(ctx, person, model, made); err != nil {
				return last, false, fmt.Errorf("save vectors: %w", err)
			}
			s.vectors.drop(person, slices.MinFunc(made, func(a,
				b store.Vector) int {
				return cmp.Compare(a.Point, b.Point)
			}).Point)
		}
		if err != nil {
			return last, false, fmt.Errorf("embed points: %w", err)
		}
		end := &points[len(points)-1]
		last = store.PointKey{At: end.Created, Number: end.Number}
		if len(points) < indexBatch {
			return last, true, nil
		}
	}
	return last, false, nil
}

// embedPoints makes the vectors of points. If the request is refused, it finds the text at fault by
// bisection.
func (s *Service) embedPoints(ctx context.Context, points []store.Point) ([]store.Vector, error) {
	texts := make([]string, len(points))
	for i := range points {
		texts[i] = embedText(&points[i])
	}
	got, err := s.Embedder.Embed(ctx, texts)
	if err == nil && len(got) != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", len(got), len(texts))
	}
	switch {
	case err == nil:
		out := make([]store.Vector, len(points))
		for i := range points {
			out[i] = store.Vector{Point: points[i].Number, Version: points[i].Version,
				Data: packBytes(quantize(got[i]))}
		}
		return out, nil
	case !isRefused(err) || ctx.Err() != nil:
		return nil, err
	case len(points) == 1:
		// If even this text is refused, the settings are at fault.
		if _, err := s.Embedder.Embed(ctx, []string{"text"}); err != nil {
			return nil, err
		}
		s.Logger.WarnContext(ctx, "the embedding model takes the text of a point not", "point", points[0].ID,
			"error", err)
		return []store.Vector{{Point: points[0].Number, Version: points[0].Version}}, nil
	}
	out, err := s.embedPoints(ctx, points[:len(points)/2])
	if err != nil {
		return out, err
	}
	more, err := s.embedPoints(ctx, points[len(points)/2:])
	return append(out, more...), err
}

// isRefused reports whether an embedder rejects the texts themselves.
func isRefused(err error) bool {
	var r interface{ Refused() bool }
	return errors.As(err, &r) && r.Refused()
}

// embedText returns the text of a point to embed.
func embedText(p *store.Point) string {
	return strings.ToValidUTF8(truncateBytes("Question: "+p.Question+"\n\nAnswer: "+p.Answer, maxEmbedBytes), "")
}
