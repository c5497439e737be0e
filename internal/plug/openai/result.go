package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// maxPicture bounds one picture of a tool. It is what the largest photo of the
// glasses has, and goes out with every request of the rest of the turn.
const maxPicture = 4 << 20

// What the model is told about calls that came to nothing or went to the device.
const (
	resultSent            = `{"ok":true,"info":"sent to the device"}`
	resultShown           = `{"ok":true}`
	resultEmpty           = "(no output)"
	resultUnknownFunction = "Error: there is no such function. Call only those that are offered."
	resultNotJSON         = "Error: the arguments are not a JSON object. Call again with arguments that are."
	resultTooLong         = "Error: the arguments are too long; 16 KiB are the most."
	resultNeedsInput      = "Error: this needs an answer of the person, who cannot be asked from here. Do not call it again; tell the person."
	resultTimeout         = "Error: the time for calls is over, so there is no result."
	noteRepeated          = " This has failed in the same way several times. Do not try it again; go on without it."
	noteLastRound         = "\n[No more calls are possible in this turn. Answer now with what you have.]"
)

// resultText is what the model is told about a result, limit bytes at most beside the
// note that some was cut.
func resultText(r *tool.Result, limit int) (told string, failed bool) {
	switch {
	case r == nil:
		return resultEmpty, false
	case r.InputRequired != nil:
		return resultNeedsInput, true
	}
	text := strings.ToValidUTF8(r.PlainText(), "\ufffd")
	if strings.TrimSpace(text) == "" {
		text = resultEmpty
	}
	if r.IsError {
		text = "Error: " + text
	}
	return truncateResult(text, limit), r.IsError
}

func truncateResult(text string, limit int) string {
	kept := clip(text, limit)
	if len(kept) == len(text) {
		return text
	}
	return fmt.Sprintf("%s\n[%d of %d bytes were cut off here]", kept, len(text)-len(kept), len(text))
}

// pictures are the first pictures of a result that models can be shown.
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
		// What the tool says it is may be wrong, and a server that is sent such a
		// picture refuses the whole question.
		switch mime := http.DetectContentType(data); mime {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
			out = append(out, &talk.Image{MIME: mime, Data: data})
		}
	}
	return out
}
