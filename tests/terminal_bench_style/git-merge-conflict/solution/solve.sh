#!/bin/bash
set -euo pipefail

cd /app/repo
git checkout -q main
git merge feature || true
echo 'Good evening, Maria' >greeting.txt
git add greeting.txt
git commit -q -m 'Merge feature'
