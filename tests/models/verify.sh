#!/bin/sh
# verify.sh TILEWRIGHT NAME [OPTION..]: verifies $TW_MODELS_DIR/NAME.onnx, with the inputs of NAME.npz where there are some.
tilewright=$1
model="$TW_MODELS_DIR/$2"
shift 2
if [ -z "$TW_MODELS_DIR" ] || [ ! -f "$model.onnx" ]; then
  echo "not run: no $model.onnx (set TW_MODELS_DIR; scripts/make_models.py makes the models)"
  exit 77
fi
[ -f "$model.npz" ] && set -- --input "$model.npz" "$@"
exec "$tilewright" verify "$model.onnx" "$@"
