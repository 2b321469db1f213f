"""Long runs: does a broker keep its speed, its memory and the size of its tables under load and under churn?"""
