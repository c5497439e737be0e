package openai

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

// maxPicture limits one picture of a tool, in bytes: the largest photos of the glasses are about as
// large. The picture is part of every further request of the turn.
const maxPicture = 4 << 20

// Texts for the model about calls that failed or that went to the device.
const (
	resultSent    = toolbox.SentToDevice
	resultShown   = `{"ok":true}`
	noteRepeated  = " This has failed in the same way several times. Do not try it again; go on without it."
	noteLastRound = "\n[No more calls are possible in this turn. Answer now with what you have.]"
)

// pictures returns the first pictures of a result that models accept.
func pictures(r *tool.Result) []*talk.Image {
	if r == nil || r.InputRequired != nil {
		return nil
	}
	var blocks []struct{ Type, Data string }
	if json.Unmarshal(r.Content, &blocks) != nil {
		return nil
	}
	var out []*talk.Image
	for _, b := range blocks {
		if b.Type != "image" || base64.StdEncoding.DecodedLen(len(b.Data)) > maxPicture+2 || len(out) == maxPictures {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(b.Data)
		if err != nil || len(data) > maxPicture {
			continue
		}
		// The type that the tool declares may be wrong, and a server rejects the whole request
		// because of such a picture. OpenAI accepts these four types (guide "Images and vision",
		// image input requirements).
		switch mime := http.DetectContentType(data); mime {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
			out = append(out, &talk.Image{MIME: mime, Data: data})
		}
	}
	return out
}
