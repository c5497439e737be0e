package xiaozhi

// emotions are the faces of boards ([wire.Emotions]) for the emoji with which models say how they
// feel. xinnan-tech/xiaozhi-esp32-server (7475ea2) pairs most of them in the same
// way.
var emotions = map[rune]string{
	'🙂': "happy", '😊': "happy", '😀': "happy", '😄': "happy", '😃': "happy", '😆': "laughing", '😂': "funny", '🤣': "funny",
	'😔': "sad", '😢': "sad", '😠': "angry", '😡': "angry", '😭': "crying", '😍': "loving", '🥰': "loving", '😳': "embarrassed",
	'😲': "surprised", '😮': "surprised", '😱': "shocked", '🤔': "thinking", '😉': "winking", '😎': "cool", '😌': "relaxed",
	'🤤': "delicious", '😋': "delicious", '😘': "kissy", '😏': "confident", '😴': "sleepy", '😜': "silly", '🙄': "confused",
	'😕': "confused",
}

// emotion finds the first emoji of an answer.
type emotion struct{ found bool }

// read returns the face for the first emoji of the answer that has one, if it is in this piece.
func (e *emotion) read(piece string) string {
	if e.found {
		return ""
	}
	for _, r := range piece {
		if face := emotions[r]; face != "" {
			e.found = true
			return face
		}
	}
	return ""
}
